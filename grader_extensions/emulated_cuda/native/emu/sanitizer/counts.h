// Counts the memory accesses of each instruction as a GPU would make them: requests of warps, 32-byte sectors of global memory, passes of
// shared memory, active lanes, bytes.  Counts only, never times; of some blocks of each launch.
//
// Threads run one after another, so the lanes of a warp have to be put together: the k-th execution of one instruction by each lane, since
// the block's last barrier, is one request.  That is exact where all lanes that execute it do so equally often, and in a loop that lanes leave
// one by one.  It is an approximation where lanes skip it in some iterations, or where an inner loop has other trip counts per lane.
#pragma once

#include <link.h>

#include "check.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

enum class Access : unsigned char { Load, Store, Atomic };

inline constexpr unsigned sector_bytes = 32, bank_count = 32, bank_bytes = 4;
inline constexpr unsigned site_limit = 256, site_slots = 1024;
inline constexpr unsigned chunk_requests = 4, chunk_limit = 8192;  // 32768 requests between two barriers
inline constexpr uint64_t counted_access_limit = 1u << 24;  // of the process: what is counted takes a few times as long
inline constexpr size_t widest_range = 1024;                // of a copied struct

struct AccessTotals {
    unsigned long long requests, transactions, least_transactions, active_lanes, requested_bytes;
};

// Memory that the sanitizer has no shadow of is a tensor that an extension has allocated itself, or the device's own.
enum class Counted : unsigned char { Global, Shared, Unnamed };
inline constexpr unsigned counted_kinds = 3;

// One instruction.  A generic pointer may point to several kinds of memory.
struct AccessSite {
    uint32_t place;
    Access access;
    AccessTotals totals[counted_kinds];
};

// Requests of one instruction and one warp, in order.  Numbers of chunks and requests begin with 1; 0 is none.
struct RequestChunk {
    uintptr_t addresses[chunk_requests][32];
    uint32_t lanes[chunk_requests];
    unsigned char bytes[chunk_requests];
    uint32_t next;
};
struct RequestStream {
    uint32_t first;     // chunk
    uint32_t last[32];  // the request that each lane made last
};
struct RequestTable {
    RequestStream streams[site_limit][32];  // by site and warp
    RequestChunk chunks[chunk_limit];
    uintptr_t words[bank_count][32];  // too large for the stack of a fiber
};

struct AccessCounts {
    RequestTable* table;
    AccessSite sites[site_limit];
    uint16_t slots[site_slots];  // site + 1, with open addressing
    unsigned site_count;
    unsigned warps;  // of the running block
    uint32_t chunks_used, free_chunk;
    uint32_t full_for;   // warp + 1 that has filled the table by itself
    size_t image_bytes;  // of this library in memory
    unsigned long long accesses, counted_blocks, blocks, launches;
    bool partial, paused;
};
inline __constinit AccessCounts counts{};

EMU_RAW inline uint32_t take_chunk() {
    uint32_t number = counts.free_chunk;
    if (number) counts.free_chunk = counts.table->chunks[number - 1].next;
    else if (counts.chunks_used < chunk_limit) number = ++counts.chunks_used;
    else return 0;
    RequestChunk& chunk = counts.table->chunks[number - 1];
    for (uint32_t& lanes : chunk.lanes) lanes = 0;
    chunk.next = 0;
    return number;
}

struct Transactions {
    unsigned needed, least;
};

// Distinct sectors.
EMU_RAW inline Transactions global_transactions(const uintptr_t* addresses, uint32_t lanes, unsigned bytes) {
    uintptr_t sectors[64];
    unsigned count = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uintptr_t address = addresses[__builtin_ctz(rest)];
        for (uintptr_t sector = address / sector_bytes; sector <= (address + bytes - 1) / sector_bytes; ++sector) {
            unsigned at = count;
            while (at > 0 && sectors[at - 1] != sector) --at;
            if (at == 0) sectors[count++] = sector;
        }
    }
    unsigned least = (static_cast<unsigned>(__builtin_popcount(lanes)) * bytes + sector_bytes - 1) / sector_bytes;
    return {count, least < count ? least : count};
}

// Whether each two active lanes whose numbers differ in this bit alone have the same address.
EMU_RAW inline bool pairs_share(const uintptr_t* addresses, uint32_t lanes, unsigned bit) {
    for (unsigned lane = 0; lane < 32; ++lane)
        if (lanes >> lane & lanes >> (lane ^ bit) & 1 && addresses[lane] != addresses[lane ^ bit]) return false;
    return true;
}

// How many lanes take part in one pass.  NVIDIA documents accesses of 4 bytes only.  Nsight Compute shows on an A100 that accesses of 8 or 16
// bytes are made by half or a quarter of a warp at a time, and loads by twice as many lanes where these share addresses in pairs
// (https://zhuanlan.zhihu.com/p/690052715).
EMU_RAW inline unsigned lanes_of_pass(const uintptr_t* addresses, uint32_t lanes, unsigned bytes, Access access) {
    if (bytes <= 4) return 32;
    bool share = access == Access::Load && (pairs_share(addresses, lanes, 1) || pairs_share(addresses, lanes, 2));
    return (bytes <= 8 ? 16 : 8) << share;
}

// The bank with the most distinct words says how many passes there are.  Atomics of one word follow one another.
EMU_RAW inline Transactions shared_transactions(const uintptr_t* addresses, uint32_t lanes, unsigned bytes, Access access) {
    unsigned phase_lanes = lanes_of_pass(addresses, lanes, bytes, access);
    bool atomic = access == Access::Atomic;
    Transactions sum{0, 0};
    for (unsigned first = 0; first < 32; first += phase_lanes) {
        unsigned count[bank_count] = {}, most = 0;
        uint32_t phase = (phase_lanes == 32 ? ~0u : (1u << phase_lanes) - 1) << first;
        for (uint32_t rest = lanes & phase; rest; rest &= rest - 1) {
            uintptr_t address = addresses[__builtin_ctz(rest)];
            for (uintptr_t word = address / bank_bytes; word <= (address + bytes - 1) / bank_bytes; ++word) {
                unsigned bank = word % bank_count, at = count[bank];
                while (!atomic && at > 0 && counts.table->words[bank][at - 1] != word) --at;
                if ((at > 0 && !atomic) || count[bank] == 32) continue;
                counts.table->words[bank][count[bank]++] = word;
                if (count[bank] > most) most = count[bank];
            }
        }
        sum.needed += most;
        sum.least += most > 0;
    }
    return sum;
}

EMU_RAW inline void count_request(AccessSite& site, const RequestChunk& chunk, unsigned at) {
    uint32_t lanes = chunk.lanes[at];
    const uintptr_t* addresses = chunk.addresses[at];
    const Page* page = page_of(addresses[__builtin_ctz(lanes)]);
    bool shared = page && page->shared;
    Counted kind = shared ? Counted::Shared : page ? Counted::Global : Counted::Unnamed;
    Transactions made = shared ? shared_transactions(addresses, lanes, chunk.bytes[at], site.access)
                               : global_transactions(addresses, lanes, chunk.bytes[at]);
    AccessTotals& totals = site.totals[static_cast<int>(kind)];
    auto active = static_cast<unsigned>(__builtin_popcount(lanes));
    ++totals.requests;
    totals.transactions += made.needed;
    totals.least_transactions += made.least;
    totals.active_lanes += active;
    totals.requested_bytes += uint64_t{active} * chunk.bytes[at];
}

EMU_RAW inline void count_stream(AccessSite& site, RequestStream& stream) {
    uint32_t number = stream.first, last = 0;
    for (; number; last = number, number = counts.table->chunks[number - 1].next) {
        const RequestChunk& chunk = counts.table->chunks[number - 1];
        for (unsigned at = 0; at < chunk_requests && chunk.lanes[at]; ++at) count_request(site, chunk, at);
    }
    counts.table->chunks[last - 1].next = counts.free_chunk;
    counts.free_chunk = stream.first;
    emu_libc_memset(&stream, 0, sizeof stream);
}

// All that the warps but one have asked for since the last barrier; 32 for all warps.
EMU_COLD inline void count_requests(unsigned left_out) {
    for (unsigned site = 0; site < counts.site_count; ++site)
        for (unsigned warp = 0; warp < counts.warps; ++warp)
            if (RequestStream& stream = counts.table->streams[site][warp]; stream.first && warp != left_out)
                count_stream(counts.sites[site], stream);
    counts.full_for = 0;
}

// The number of the site + 1; 0 where there is no room for another.
EMU_RAW inline unsigned site_of(const void* code, Access access) {
    uint32_t place = place_of(code);
    for (uint32_t at = (place * 4 + static_cast<uint32_t>(access)) * 0x9e3779b1u >> 20;; ++at) {
        uint16_t& slot = counts.slots[at % site_slots];
        if (slot && counts.sites[slot - 1].place == place && counts.sites[slot - 1].access == access) return slot;
        if (slot) continue;
        if (counts.site_count == site_limit) return 0;
        counts.sites[counts.site_count].place = place;
        counts.sites[counts.site_count].access = access;
        return slot = static_cast<uint16_t>(++counts.site_count);
    }
}

// A chunk for the running warp.  If there is none, the requests of the other warps are counted as they are: most of these warps have come to
// the end of the interval.
EMU_COLD inline uint32_t make_room(unsigned warp) {
    if (uint32_t number = take_chunk()) return number;
    if (counts.full_for == warp + 1) return 0;
    count_requests(warp);
    uint32_t number = take_chunk();
    if (!number) counts.full_for = warp + 1;
    return number;
}

EMU_RAW inline void pause_counts() {
    counts.paused = clock.counts;
    clock.counts = false;
}
EMU_RAW inline void resume_counts() { clock.counts = counts.paused; }

EMU_RAW inline bool is_within(uintptr_t address, const void* begin, size_t bytes) {
    return address - reinterpret_cast<uintptr_t>(begin) < bytes;
}

// Whether an address that has no shadow may be one of global memory: not the thread's own, nor a variable of this library (its constants
// too), nor a kernel's argument, nor the device's.
EMU_RAW inline __attribute__((noinline)) bool is_unnamed_memory(uintptr_t address) {
    constexpr size_t around_bytes = 4096;  // of built-in variables, and of arguments
    const auto* variables = reinterpret_cast<const char*>(&threadIdx) - around_bytes;
    if (address - clock.base < counts.image_bytes || is_within(address, variables, 2 * around_bytes)) return false;
    if (is_within(address, worker, sizeof *worker)) return false;
    pause_counts();  // these are instrumented themselves
    bool own = worker->on_stack(reinterpret_cast<const void*>(address)) || is_within(address, worker->launch()->call, around_bytes);
    resume_counts();
    return !own;
}

EMU_RAW inline __attribute__((noinline)) void count_access(uintptr_t address, unsigned bytes, const void* code, Access access) {
    const Page* page = page_of(address);
    if (clock.self == Clock::host || (!page && !is_unnamed_memory(address))) return;
    unsigned site = counts.accesses < counted_access_limit ? site_of(code, access) : 0, warp = clock.self / 32, lane = clock.self % 32;
    if (!site) {
        counts.partial |= page || counts.accesses == counted_access_limit;
        return;
    }
    ++counts.accesses;
    RequestStream& stream = counts.table->streams[site - 1][warp];
    uint32_t last = stream.last[lane], number = last + 1;
    if (last % chunk_requests == 0) {
        uint32_t* next = last ? &counts.table->chunks[last / chunk_requests - 1].next : &stream.first;
        if (!*next && !(*next = make_room(warp))) {
            counts.partial = true;
            return;
        }
        number = (*next - 1) * chunk_requests + 1;
    }
    stream.last[lane] = number;
    RequestChunk& chunk = counts.table->chunks[(number - 1) / chunk_requests];
    unsigned at = (number - 1) % chunk_requests;
    chunk.addresses[at][lane] = address;
    chunk.bytes[at] = static_cast<unsigned char>(bytes);
    chunk.lanes[at] |= 1u << lane;
}

// What is wider than a register is copied 16 bytes at a time.
EMU_COLD inline void count_range(uintptr_t address, size_t bytes, const void* code, bool writes) {
    if (bytes > widest_range) {
        if (!page_of(address)) return;  // lists of the device's own that grow
        counts.partial = true;
        bytes = widest_range;
    }
    for (size_t at = 0; at < bytes; at += 16)
        count_access(address + at, static_cast<unsigned>(bytes - at < 16 ? bytes - at : 16), code, writes ? Access::Store : Access::Load);
}

// An asynchronous copy counts where it is issued, and not where it is made.
EMU_COLD inline void copy_issued(const void* to, const void* from, size_t bytes, size_t given) {
    if (!clock.counts) return;
    const void* code = __builtin_extract_return_addr(__builtin_return_address(0));
    if (given) count_access(reinterpret_cast<uintptr_t>(from), static_cast<unsigned>(given), code, Access::Load);
    count_access(reinterpret_cast<uintptr_t>(to), static_cast<unsigned>(bytes), code, Access::Store);
}
EMU_COLD inline int measure_image(struct dl_phdr_info* info, size_t, void*) {
    if (info->dlpi_addr != clock.base) return 0;
    for (unsigned at = 0; at < info->dlpi_phnum; ++at)
        if (info->dlpi_phdr[at].p_type == PT_LOAD) counts.image_bytes = info->dlpi_phdr[at].p_vaddr + info->dlpi_phdr[at].p_memsz;
    return 1;
}

EMU_COLD inline bool make_table() {
    if (counts.table) return true;
    dl_iterate_phdr(&measure_image, nullptr);
    return (counts.table = reserve<RequestTable>()) != nullptr;
}

// About four blocks of a small grid, one of 64 of a large one.  Multiples of the golden ratio are spread evenly, over columns and rows too.
EMU_RAW inline bool is_counted(uint64_t index, uint64_t blocks) {
    uint64_t share = blocks / 4 < 1 ? 1 : blocks / 4 < 64 ? blocks / 4 : 64;
    return static_cast<uint32_t>(index * 0x9e3779b9u) <= UINT32_MAX / share;
}

EMU_RAW inline void count_block() {
    ++counts.blocks;
    uint64_t row = uint64_t{gridDim.x}, index = blockIdx.x + row * (blockIdx.y + uint64_t{gridDim.y} * blockIdx.z);
    if (!is_counted(index, row * gridDim.y * gridDim.z)) return;
    if (counts.accesses == counted_access_limit) counts.partial = true;
    else clock.counts = findings.log[0] && make_table();
    counts.counted_blocks += clock.counts;
    counts.warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
}

EMU_RAW inline void count_barrier() {
    if (clock.counts) count_requests(32);
}

EMU_RAW inline void end_counted_block() {
    count_barrier();
    clock.counts = false;
}

EMU_COLD inline void write_totals(int file, unsigned id, const AccessSite& site, Counted kind) {
    static constexpr const char* names[2][3] = {{"global_load", "global_store", "global_atomic"},
                                                {"shared_load", "shared_store", "shared_atomic"}};
    const AccessTotals& totals = site.totals[static_cast<int>(kind)];
    if (!totals.requests) return;
    write_line(file,
               "{\"kind\":\"line_counts\",\"id\":%u,\"place\":%u,\"access\":\"%s\",\"unnamed\":%s,\"requests\":%llu,\"transactions\":%llu,"
               "\"least_transactions\":%llu,\"active_lanes\":%llu,\"requested_bytes\":%llu}\n",
               id, site.place, names[kind == Counted::Shared][static_cast<int>(site.access)], kind == Counted::Unnamed ? "true" : "false",
               totals.requests, totals.transactions, totals.least_transactions, totals.active_lanes, totals.requested_bytes);
}

// Appends all counts; later lines replace earlier ones.
EMU_COLD inline void flush_counts() {
    int file = counts.counted_blocks ? open_log() : -1;
    if (file < 0) return;
    // A fault ends a block early.
    bool written = write_line(file, "{\"kind\":\"counted_blocks\",\"counted\":%llu,\"blocks\":%llu,\"partial\":%s}\n", counts.counted_blocks,
                              counts.blocks, counts.partial || clock.counts ? "true" : "false");
    for (unsigned site = 0; written && site < counts.site_count; ++site)
        for (Counted kind : {Counted::Global, Counted::Shared, Counted::Unnamed})
            write_totals(file, counted_kinds * site + static_cast<unsigned>(kind), counts.sites[site], kind);
    close(file);
}

// Not after every launch, for the log is read to a limit; what a process leaves that is killed is not complete.
EMU_COLD inline void count_launch() {
    uint64_t launches = ++counts.launches;
    bool power_of_16 = (launches & (launches - 1)) == 0 && launches & 0x1111111111111111u;
    if (power_of_16) flush_counts();
}

}  // namespace sanitizer
}  // namespace emu
