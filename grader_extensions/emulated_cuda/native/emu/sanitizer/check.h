// Checks one access against its cells: does the memory exist, was it written, and is the last access by another thread over; and who waits
// at which barrier.  The first race at each address is found, as in FastTrack (Flanagan and Freund, PLDI 2009).
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

// For what the compiler must not instrument: the hooks, and all that they call.
#define EMU_RAW __attribute__((no_sanitize("thread", "alignment", "bounds")))
#define EMU_COLD EMU_RAW __attribute__((noinline, cold))

// What the sanitizer knows of every 4 bytes of device memory: who wrote and read it last, and which bytes exist and hold a value.
// Shadow pages are made when their memory is first touched.  Nothing here is instrumented, and nothing allocates in a signal handler.
namespace emu EMU_HIDDEN {
namespace sanitizer {

// Times count synchronisations, of the whole process: one OS thread runs everything in this mode, so they are totally ordered.
struct Clock {
    uint32_t time = 1;
    uint32_t launch = 1, block = 1, barrier = 1;  // when these last began, or released their threads
    uint32_t self = host;                         // the running thread's number in its block
    uintptr_t base = 0;                           // of this library; addresses of code are relative to it
    uintptr_t stack = 0;                          // of the running thread: its lowest address
    static constexpr uint32_t host = 1024;        // no kernel runs
    bool counts = false;                          // whether accesses of this block are counted
};
inline __constinit Clock clock;
inline __constinit const void* last_code = nullptr;  // of the last access that was checked

// A thread's number in its block (10 bits) and where it was in the code, in units of 4 bytes (22 bits): a call is 5 bytes long, so what
// lies before the rounded return address still belongs to it.  A new block clears the cells of shared memory.
struct Cell {
    uint32_t write_time, writer, read_time, reader, bits;
};
// The low 16 bits of Cell::bits are four masks of bytes.
inline constexpr unsigned allocated_shift = 0, initialised_shift = 4, written_shift = 8, read_shift = 12;
inline constexpr uint32_t atomic_write = 1u << 16, volatile_write = 1u << 17;
inline constexpr uint32_t many_lanes = 1u << 18, many_warps = 1u << 19, other_block = 1u << 20, volatile_read = 1u << 21;
inline constexpr uint32_t read_only = 1u << 22;

inline constexpr unsigned page_shift = 12, page_cells = (1u << page_shift) / 4;

// Zeros, which take memory when they are touched; null where there are none left.
template <class T>
EMU_COLD T* reserve() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

struct Page {
    Cell cells[page_cells];
    uintptr_t number;
    bool shared;
};

enum class Space : unsigned char { Global, Shared };

struct Region {
    uintptr_t begin, end;
    char name[48];
    Space space;
    bool writable, initialised, external;
};

struct Regions {
    Region* list = nullptr;
    size_t count = 0, capacity = 0;
};
inline __constinit Regions regions;

// Pages by number, with open addressing; a cache of direct hits in front of it also holds the pages that have no shadow.
struct PageTable {
    Page** slots = nullptr;
    size_t capacity = 0, count = 0;
};
inline __constinit PageTable pages;
struct CacheEntry {
    uintptr_t number;
    Page* page;
};
inline constexpr unsigned cache_entries = 512;
inline __constinit CacheEntry page_cache[cache_entries] = {};

EMU_RAW inline size_t slot_of(uintptr_t number, size_t capacity) { return (number * 0x9e3779b97f4a7c15ull >> 20) & (capacity - 1); }

EMU_RAW inline Page*& slot_of_page(uintptr_t number) {
    size_t at = slot_of(number, pages.capacity);
    while (pages.slots[at] && pages.slots[at]->number != number) at = (at + 1) & (pages.capacity - 1);
    return pages.slots[at];
}
EMU_COLD inline Page* find_page(uintptr_t number) { return pages.capacity ? slot_of_page(number) : nullptr; }
EMU_RAW inline void insert_page(Page* page) {
    slot_of_page(page->number) = page;
    ++pages.count;
}

EMU_COLD inline void rebuild_table(size_t capacity, uintptr_t dropped) {
    PageTable old = pages;
    pages = {static_cast<Page**>(calloc(capacity, sizeof(Page*))), capacity, 0};
    if (!pages.slots) abort();
    for (size_t at = 0; at < old.capacity; ++at) {
        Page* page = old.slots[at];
        if (page && page->number == dropped) munmap(page, sizeof(Page));
        else if (page) insert_page(page);
    }
    free(old.slots);
}

EMU_RAW inline void forget_cache() {
    for (CacheEntry& entry : page_cache) entry = {0, nullptr};
}

EMU_RAW inline bool overlaps(const Region& region, uintptr_t begin, uintptr_t end) { return region.begin < end && region.end > begin; }

EMU_RAW inline bool any_region_overlaps(uintptr_t begin, uintptr_t end) {
    for (size_t i = 0; i < regions.count; ++i)
        if (overlaps(regions.list[i], begin, end)) return true;
    return false;
}

EMU_RAW inline uint32_t byte_mask(uintptr_t cell, uintptr_t begin, uintptr_t end) {
    uint32_t mask = 0;
    for (unsigned byte = 0; byte < 4; ++byte)
        if (cell + byte >= begin && cell + byte < end) mask |= 1u << byte;
    return mask;
}

// Makes the part of a page that lies in a region as it is when the region is new.
EMU_RAW inline void reset_cells(Page& page, const Region& region, uintptr_t from, uintptr_t to) {
    uintptr_t begin = page.number << page_shift, end = begin + (1u << page_shift);
    page.shared = region.space == Space::Shared;
    if (from < begin) from = begin;
    if (to > end) to = end;
    uint32_t whole = 0xfu << allocated_shift | (region.initialised ? 0xfu << initialised_shift : 0) | (region.writable ? 0 : read_only);
    for (uintptr_t at = from & ~uintptr_t{3}; at < to; at += 4) {
        Cell& cell = page.cells[(at - begin) / 4];
        uint32_t mask = byte_mask(at, from, to);
        uint32_t kept = cell.bits & ~(mask << allocated_shift | mask << initialised_shift) & 0xff;
        if (mask == 0xf) kept = 0;
        cell = {0, 0, 0, 0, kept | (whole & (mask << allocated_shift | mask << initialised_shift | read_only))};
    }
}

// Gaps between tensors of one arena belong to nobody: an access there is out of bounds too.
inline constexpr uintptr_t gap_bytes = 1 << 20;
EMU_RAW inline bool in_gap(uintptr_t address) {
    bool before = false, after = false;
    for (size_t i = 0; i < regions.count; ++i) {
        const Region& region = regions.list[i];
        if (!region.external) continue;
        before |= region.end <= address && address - region.end < gap_bytes;
        after |= region.begin > address && region.begin - address < gap_bytes;
    }
    return before && after;
}

EMU_COLD inline Page* make_page(uintptr_t number) {
    uintptr_t begin = number << page_shift, end = begin + (1u << page_shift);
    if (!in_gap(begin) && !any_region_overlaps(begin, end)) return nullptr;
    auto* page = reserve<Page>();
    if (!page) return nullptr;
    page->number = number;
    for (size_t i = 0; i < regions.count; ++i)
        if (const Region& region = regions.list[i]; overlaps(region, begin, end)) reset_cells(*page, region, region.begin, region.end);
    if ((pages.count + 1) * 2 > pages.capacity) rebuild_table(pages.capacity ? pages.capacity * 2 : 1024, 0);
    insert_page(page);
    return page;
}

EMU_COLD inline Page* look_up(uintptr_t number) {
    Page* page = find_page(number);
    if (!page) page = make_page(number);
    page_cache[number % cache_entries] = {number, page};
    return page;
}

EMU_RAW inline __attribute__((always_inline)) Page* page_of(uintptr_t address) {
    uintptr_t number = address >> page_shift;
    const CacheEntry& entry = page_cache[number % cache_entries];
    return entry.number == number ? entry.page : look_up(number);
}

EMU_RAW inline Region* region_at(uintptr_t begin) {
    for (size_t i = 0; i < regions.count; ++i)
        if (regions.list[i].begin == begin) return &regions.list[i];
    return nullptr;
}

EMU_COLD inline void remove_region(uintptr_t begin) {
    Region* found = region_at(begin);
    if (!found) return;
    Region old = *found;
    *found = regions.list[--regions.count];
    forget_cache();
    for (uintptr_t number = old.begin >> page_shift; number <= (old.end - 1) >> page_shift; ++number) {
        Page* page = find_page(number);
        if (!page) continue;
        uintptr_t from = number << page_shift, to = from + (1u << page_shift);
        if (!any_region_overlaps(from, to)) {
            rebuild_table(pages.capacity, number);
            continue;
        }
        for (uintptr_t at = from; at < to; at += 4) {
            uint32_t mask = byte_mask(at, old.begin, old.end);
            page->cells[(at - from) / 4].bits &= ~(mask << allocated_shift | mask << initialised_shift);
        }
    }
}

EMU_COLD inline void add_region(const void* address, size_t bytes, const char* name, Space space, bool writable, bool initialised,
                                bool external) {
    auto begin = reinterpret_cast<uintptr_t>(address);
    if (bytes == 0 || begin == 0 || begin + bytes < begin) return;
    for (size_t i = regions.count; i-- > 0;)  // what lay there before is gone
        if (overlaps(regions.list[i], begin, begin + bytes)) remove_region(regions.list[i].begin);
    if (regions.count == regions.capacity) {
        regions.capacity = regions.capacity ? regions.capacity * 2 : 64;
        regions.list = static_cast<Region*>(realloc(regions.list, regions.capacity * sizeof(Region)));
        if (!regions.list) abort();
    }
    Region& region = regions.list[regions.count++];
    region = {begin, begin + bytes, {}, space, writable, initialised, external};
    for (size_t i = 0; name && name[i] && i + 1 < sizeof region.name; ++i) region.name[i] = name[i];
    forget_cache();
    for (uintptr_t number = begin >> page_shift; number <= (region.end - 1) >> page_shift; ++number)
        if (Page* page = find_page(number)) reset_cells(*page, region, region.begin, region.end);
}

EMU_COLD inline void mark_initialised(const void* address, size_t bytes) {
    auto begin = reinterpret_cast<uintptr_t>(address);
    for (uintptr_t at = begin & ~uintptr_t{3}; at < begin + bytes;) {
        uintptr_t number = at >> page_shift, next = (number + 1) << page_shift;
        Page* page = page_of(at);
        for (; at < next && at < begin + bytes; at += 4)
            if (page) page->cells[(at - (number << page_shift)) / 4].bits |= byte_mask(at, begin, begin + bytes) << initialised_shift;
    }
}

// The region that ends or begins nearest to an address, of those that the space has; null where there is none.
EMU_COLD inline const Region* nearest_region(uintptr_t address, uintptr_t* distance) {
    const Region* best = nullptr;
    for (size_t i = 0; i < regions.count; ++i) {
        const Region& region = regions.list[i];
        uintptr_t away = address < region.begin ? region.begin - address : address >= region.end ? address - region.end + 1 : 0;
        // What runs over its end is likelier than what begins too early.
        bool nearer = !best || away < *distance || (away == *distance && address >= region.end);
        if (nearer) best = &region, *distance = away;
    }
    return best;
}

// What the sanitizer has found: one entry for each kind and pair of places, with a count, written as JSON lines after every launch.
// Fixed buffers and plain writes only: this also runs in a signal handler.
enum class Severity : unsigned char { Error, Warning, Info };

struct Index {
    unsigned x, y, z;
};

struct Finding {
    const char* kind;
    Severity severity;
    uint32_t place, other_place;  // addresses of code in this library, which the message names {0} and {1}; 0: none
    char message[480], memory[64];
    Index block, thread;
    unsigned long long count, logged;
};

inline constexpr unsigned finding_limit = 256;
struct Findings {
    Finding list[finding_limit];
    unsigned count = 0;
    uint32_t hash[1024] = {};  // index + 1, by kind and places
    char log[512] = {};
    bool prepared = false;
};
inline __constinit Findings findings{};

// Where this library lies, and the log's name; found out once, not in a signal handler.
EMU_COLD inline void prepare() {
    if (findings.prepared) return;
    findings.prepared = true;
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&prepare), &info)) clock.base = reinterpret_cast<uintptr_t>(info.dli_fbase);
    if (const char* log = getenv("GRADER_SANITIZER_LOG")) snprintf(findings.log, sizeof findings.log, "%.500s", log);
}

// Places in findings are offsets in this library of what lies behind the instruction.
EMU_RAW inline uint32_t place_of(const void* code) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - clock.base); }
EMU_RAW inline uint32_t place_in(uint32_t who) { return who >> 10 << 2; }
EMU_RAW inline __attribute__((always_inline)) uint32_t who_is_at(const void* code) {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(code) - clock.base) << 8) & ~1023u | clock.self;
}

EMU_RAW inline unsigned self_linear() { return clock.self & 1023; }
EMU_RAW inline Index index_of(unsigned linear) {
    unsigned x = blockDim.x ? blockDim.x : 1, y = blockDim.y ? blockDim.y : 1;
    return {linear % x, linear / x % y, linear / x / y};
}

// A new entry for these places, whose text is still to be written; null where there is one, or no room for another.
EMU_COLD inline Finding* enter(const char* kind, Severity severity, uint32_t place, uint32_t other_place = 0) {
    uint32_t key = static_cast<uint32_t>(severity) * 77 + static_cast<uint32_t>(strlen(kind));
    for (uint32_t each : {place, other_place}) key = (key ^ each) * 0x9e3779b1u;
    for (uint32_t at = key >> 7;; ++at) {
        uint32_t& slot = findings.hash[at % 1024];
        if (slot == 0) {
            if (findings.count == finding_limit) return nullptr;
            Finding& finding = findings.list[findings.count];
            slot = ++findings.count;
            finding.kind = kind;
            finding.severity = severity;
            finding.place = place;
            finding.other_place = other_place;
            finding.count = 1;
            if (clock.self != Clock::host) finding.block = {blockIdx.x, blockIdx.y, blockIdx.z};
            if (worker && worker->running()) finding.thread = index_of(self_linear());
            return &finding;
        }
        Finding& finding = findings.list[slot - 1];
        bool same = strcmp(finding.kind, kind) == 0 && finding.severity == severity;
        if (!same || finding.place != place || finding.other_place != other_place) continue;
        ++finding.count;
        return nullptr;
    }
}

EMU_COLD inline int open_log() { return findings.log[0] ? open(findings.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1; }

// Writes one line.
EMU_COLD __attribute__((format(printf, 2, 3))) inline bool write_line(int file, const char* format, ...) {
    char text[4096];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return length < static_cast<int>(sizeof text) && write(file, text, static_cast<size_t>(length)) >= 0;
}

// A text as it stands between the quotes of JSON.
struct Escaped {
    char text[2 * sizeof Finding::message];

    EMU_RAW explicit Escaped(const char* words) {
        size_t length = 0;
        for (; *words && length + 2 < sizeof text; ++words) {
            if (*words == '"' || *words == '\\') text[length++] = '\\';
            text[length++] = *words >= 32 && *words < 127 ? *words : '?';
        }
        text[length] = 0;
    }
};

EMU_COLD inline void write_finding(int file, Finding& finding) {
    static constexpr const char* severities[] = {"error", "warning", "info"};
    const Index &block = finding.block, &thread = finding.thread;
    write_line(file,
               "{\"id\":%td,\"kind\":\"%s\",\"severity\":\"%s\",\"message\":\"%s\",\"memory\":\"%s\",\"block\":[%u,%u,%u],"
               "\"thread\":[%u,%u,%u],\"count\":%llu,\"places\":[%u,%u]}\n",
               &finding - findings.list, finding.kind, severities[static_cast<int>(finding.severity)], Escaped(finding.message).text,
               Escaped(finding.memory).text, block.x, block.y, block.z, thread.x, thread.y, thread.z, finding.count, finding.place,
               finding.other_place);
    finding.logged = finding.count;
}

// Gives a finding its text.  What a crash must not lose: it is written at once.
EMU_COLD __attribute__((format(printf, 2, 3))) inline void finish(Finding& finding, const char* format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(finding.message, sizeof finding.message, format, values);
    va_end(values);
    int file = open_log();
    if (file < 0) return;
    write_finding(file, finding);
    close(file);
}

// Appends what is new, or seen more often; a later line of the same number replaces an earlier one.
EMU_COLD inline void flush_findings() {
    int file = -1;
    for (unsigned i = 0; i < findings.count; ++i) {
        if (findings.list[i].logged == findings.list[i].count) continue;
        if (file < 0) file = open_log();
        if (file < 0) return;
        write_finding(file, findings.list[i]);
    }
    if (file >= 0) close(file);
}

// What orders two accesses: barriers, __syncwarp, and atomics behind a fence.  Times are those of Clock; an access at time t comes
// before everything that a synchronisation after t has released.  Shuffles and votes order nothing, as CUDA documents.
// How far a fence reaches.  One of the device is one of the block too.
enum Scope : unsigned { block_scope, device_scope, scopes };
struct Fences {
    uint32_t acquired[1024];  // all before this time is ordered before the thread
    uint32_t fenced[1024];    // the thread's last fence
    uint32_t block_acquired, block_fenced, barrier_fenced;
};

struct Order {
    // [thread][lane]: when this thread last met that lane of its own warp; and when the whole warp met.
    uint32_t lanes[1024][32];
    uint32_t warp[32];
    uint32_t warps[32][32];    // when two warps last met at a barrier of their own
    Fences fences[scopes];
    bool lanes_used, warps_used, fences_used;
};
inline __constinit Order order{};

// When an address was last written behind a fence, by an atomic or as a volatile.
struct Release {
    uintptr_t address;
    uint32_t times[scopes];
};
inline constexpr unsigned release_slots = 4096;
inline __constinit Release releases[release_slots] = {};
inline __constinit bool any_release = false;

EMU_RAW inline void reset_order() {
    if (order.lanes_used) emu_libc_memset(order.lanes, 0, sizeof order.lanes);
    if (order.warps_used) emu_libc_memset(order.warps, 0, sizeof order.warps);
    if (order.fences_used) emu_libc_memset(order.fences, 0, sizeof order.fences);
    emu_libc_memset(order.warp, 0, sizeof order.warp);
    order.lanes_used = order.warps_used = order.fences_used = false;
}

EMU_RAW inline bool fences_order(Scope scope, uint32_t time, unsigned self) {
    return time < order.fences[scope].acquired[self] || time < order.fences[scope].block_acquired;
}

// Whether an access of `other` at `time`, in this block since its last barrier, is before what `self` does now.
EMU_RAW inline bool threads_ordered(uint32_t time, unsigned other, unsigned self) {
    if (fences_order(block_scope, time, self)) return true;
    if (other / 32 == self / 32) {
        if (time < order.warp[self / 32]) return true;
        return order.lanes_used && time < order.lanes[self][other % 32];
    }
    return order.warps_used && time < order.warps[self / 32][other / 32];
}

EMU_RAW inline bool blocks_ordered(uint32_t time, unsigned self) { return fences_order(device_scope, time, self); }

// `group` are lanes of a warp that met; `live` are all that it has.
EMU_COLD inline void join_lanes(unsigned warp, unsigned group, unsigned live) {
    uint32_t now = ++clock.time;
    if ((live & ~group) == 0) {
        order.warp[warp] = now;
        return;
    }
    order.lanes_used = true;
    uint32_t joined[32] = {};
    for (unsigned rest = group; rest; rest &= rest - 1)
        for (unsigned lane = 0; lane < 32; ++lane) {
            uint32_t known = order.lanes[warp * 32 + static_cast<unsigned>(__builtin_ctz(rest))][lane];
            if (known > joined[lane]) joined[lane] = known;
        }
    for (unsigned rest = group; rest; rest &= rest - 1) joined[__builtin_ctz(rest)] = now;
    for (unsigned rest = group; rest; rest &= rest - 1)
        emu_libc_memcpy(order.lanes[warp * 32 + static_cast<unsigned>(__builtin_ctz(rest))], joined, sizeof joined);
}

// Warps that met at a barrier which is not the whole block's.
EMU_COLD inline void join_warps(uint32_t group) {
    uint32_t now = ++clock.time;
    order.warps_used = true;
    uint32_t joined[32] = {};
    for (uint32_t rest = group; rest; rest &= rest - 1)
        for (unsigned warp = 0; warp < 32; ++warp)
            if (order.warps[__builtin_ctz(rest)][warp] > joined[warp]) joined[warp] = order.warps[__builtin_ctz(rest)][warp];
    for (uint32_t rest = group; rest; rest &= rest - 1) joined[__builtin_ctz(rest)] = now, order.warp[__builtin_ctz(rest)] = now;
    for (uint32_t rest = group; rest; rest &= rest - 1) emu_libc_memcpy(order.warps[__builtin_ctz(rest)], joined, sizeof joined);
}

EMU_RAW inline void join_block() {
    clock.barrier = ++clock.time;
    if (!order.fences_used) return;
    for (Fences& fences : order.fences) {
        for (uint32_t acquired : fences.acquired)
            if (acquired > fences.block_acquired) fences.block_acquired = acquired;
        fences.barrier_fenced = fences.block_fenced;
    }
}

EMU_COLD inline void fence(Scope reach) {
    if (clock.self == Clock::host) return;
    order.fences_used = true;
    ++clock.time;
    for (unsigned scope = block_scope; scope <= reach; ++scope)
        order.fences[scope].fenced[clock.self] = order.fences[scope].block_fenced = clock.time;
}

EMU_RAW inline Release& release_of(uintptr_t address) { return releases[(address >> 2) * 0x9e3779b1u % release_slots]; }

// Whether an address has been written behind a fence, in this block.
EMU_RAW inline bool is_released(uintptr_t address) {
    return any_release && release_of(address).address == address && release_of(address).times[block_scope] > clock.block;
}

// The last fence before the running thread's writes: its own, or another thread's before a barrier.
EMU_RAW inline uint32_t last_fence(unsigned scope) {
    const Fences& fences = order.fences[scope];
    uint32_t own = fences.fenced[clock.self];
    return own > fences.barrier_fenced ? own : fences.barrier_fenced;
}

// What an atomic or volatile access of `address` learns of others, and tells them.
EMU_RAW inline void synchronise_by(uintptr_t address, bool writes) {
    if (clock.self == Clock::host || (!any_release && !order.fences_used)) return;
    Release& release = release_of(address);
    if (release.address != address) {
        if (!writes || last_fence(block_scope) <= clock.block) return;
        release = {address, {}};
    }
    for (unsigned scope = block_scope; scope < scopes; ++scope) {
        uint32_t& acquired = order.fences[scope].acquired[clock.self];
        uint32_t& released = release.times[scope];
        uint32_t fenced = last_fence(scope);
        if (released <= (scope == block_scope ? clock.block : clock.launch)) released = 0;
        if (released > acquired) acquired = released, order.fences_used = true;
        if (writes && fenced > clock.block && fenced > released) released = fenced, any_release = true;
    }
}

EMU_RAW inline const char* space_name(const Region* region) { return !region ? "" : region->space == Space::Shared ? "shared" : "global"; }

// The static variables of the running kernel, which lie in shared regions.
struct Variable {
    uintptr_t begin, end;
    const char* name;
};
struct Variables {
    Variable list[64];
    unsigned count;
};
inline __constinit Variables variables{};

EMU_RAW inline const Variable* variable_at(uintptr_t address) {
    for (unsigned i = 0; i < variables.count; ++i)
        if (variables.list[i].begin <= address && address < variables.list[i].end) return &variables.list[i];
    return nullptr;
}
EMU_RAW inline void name_variable(uintptr_t begin, size_t bytes, const char* name) {
    if (variables.count == 64 || variable_at(begin)) return;
    variables.list[variables.count++] = {begin, begin + bytes, name};
}

// What an address belongs to.
struct Memory {
    const Region* region;
    const char* name;
    uintptr_t begin, end;
};
EMU_COLD inline Memory memory_of(const Region* region, uintptr_t address) {
    if (!region) return {nullptr, "", 0, 0};
    if (const Variable* variable = variable_at(address)) return {region, variable->name, variable->begin, variable->end};
    // Behind a variable, or before it.
    for (unsigned i = 0; i < variables.count; ++i)
        if (variables.list[i].end == region->end && address >= region->end) return {region, variables.list[i].name, variables.list[i].begin, region->end};
    return {region, region->name, region->begin, region->end};
}

EMU_COLD inline void add_memory(Finding& finding, const Memory& memory) {
    const Region* region = memory.region;
    if (!region) return;
    if (memory.name[0]) snprintf(finding.memory, sizeof finding.memory, "%.47s (%s)", memory.name, space_name(region));
    else snprintf(finding.memory, sizeof finding.memory, "%s", space_name(region));
}

struct Words {
    char text[120];
};
EMU_COLD inline Words describe(const Memory& memory) {
    Words words;
    const Region* region = memory.region;
    if (!region) snprintf(words.text, sizeof words.text, "memory");
    else if (memory.name[0]) snprintf(words.text, sizeof words.text, "'%.47s' (%s memory)", memory.name, space_name(region));
    else if (region->space == Space::Shared) snprintf(words.text, sizeof words.text, "shared memory");
    else snprintf(words.text, sizeof words.text, "an allocation of %zu bytes", static_cast<size_t>(region->end - region->begin));
    return words;
}

EMU_COLD inline Memory memory_at(uintptr_t address) {
    uintptr_t distance = 0;
    const Region* region = nearest_region(address, &distance);
    return memory_of(distance == 0 ? region : nullptr, address);
}

inline constexpr uintptr_t near_bytes = uintptr_t{1} << 32;  // what is further away has nothing to do with an address

EMU_COLD inline void report_out_of_bounds(uintptr_t address, const char* what, uint32_t place) {
    Finding* finding = enter("out_of_bounds", Severity::Error, place);
    if (!finding) return;
    uintptr_t distance = 0;
    const Region* region = nearest_region(address, &distance);
    if (region && distance == 0) {  // it begins inside and runs over the end
        address = region->end;
        distance = 1;
    }
    if (!region || distance > near_bytes) return finish(*finding, "{0} %s where no memory is allocated", what);
    Memory memory = memory_of(region, address);
    add_memory(*finding, memory);
    bool before = address < region->begin;
    finish(*finding, "{0} %s out of bounds, %zu bytes %s of %s", what, static_cast<size_t>(before ? distance : distance - 1),
           before ? "before the begin" : "behind the end", describe(memory).text);
}

void suspect_barrier();

EMU_COLD inline void report_uninitialised(uintptr_t address, uint32_t place) {
    Finding* finding = enter("uninitialised_read", Severity::Error, place);
    Memory memory = memory_at(address);
    bool shared = memory.region && memory.region->space == Space::Shared;
    if (shared) suspect_barrier();
    if (!finding) return;
    add_memory(*finding, memory);
    finish(*finding, "{0} reads byte %zu of %s, which nothing has written %s", static_cast<size_t>(address - memory.begin), describe(memory).text,
           shared ? "in this block" : "since it was allocated");
}

EMU_COLD inline void report_read_only(uintptr_t address, uint32_t place) {
    Finding* finding = enter("out_of_bounds", Severity::Error, place);
    if (!finding) return;
    Memory memory = memory_at(address);
    add_memory(*finding, memory);
    finish(*finding, "{0} writes to %s, which is an input and must not be changed", describe(memory).text);
}

struct Conflict {
    uintptr_t address;
    unsigned bytes;
    uint32_t place, other_place;
    unsigned thread, other_thread;
    bool writes, other_writes, between_blocks, in_warp, is_volatile, with_atomic;
};

EMU_COLD inline void write_race(Finding& finding, const Conflict& conflict, bool same_value) {
    Memory memory = memory_at(conflict.address);
    finding.thread = index_of(conflict.thread);
    add_memory(finding, memory);
    Words where = describe(memory);
    const char* what = conflict.writes ? "written" : "read";
    const char* other = conflict.with_atomic && conflict.other_writes ? "changed by an atomic" : conflict.other_writes ? "written" : "read";
    const char* same = same_value ? " (all write the same value)" : conflict.with_atomic && conflict.writes ? " (one of them by an atomic)" : "";
    if (conflict.between_blocks)
        return finish(finding, "%s is %s at {0} by one block and %s at {1} by another in the same launch, and nothing orders the two%s", where.text,
                      what, other, same);
    Index own = index_of(conflict.thread), others = index_of(conflict.other_thread);
    char by[60] = "others";
    if (conflict.thread != conflict.other_thread) snprintf(by, sizeof by, "thread (%u,%u,%u)", others.x, others.y, others.z);
    finish(finding, "%s is %s at {0} by thread (%u,%u,%u) and %s at {1} by %s, with %s between%s", where.text, what, own.x, own.y, own.z, other, by,
           conflict.in_warp ? "no __syncwarp() or __syncthreads()" : "no __syncthreads()", same);
}

EMU_COLD inline void report_race(const Conflict& conflict, bool same_value) {
    bool mild = conflict.in_warp || conflict.is_volatile;
    Severity severity = same_value ? Severity::Info : mild ? Severity::Warning : Severity::Error;
    Finding* finding = enter("race", severity, conflict.place, conflict.other_place);
    if (!same_value && !conflict.between_blocks) suspect_barrier();
    if (finding) write_race(*finding, conflict, same_value);
}

enum class Kind : unsigned char { Plain, Volatile, Atomic };

// A write that races is only an error if it changes the value, which is known when the next access begins.
struct PendingWrite {
    Conflict conflict;
    char before[16];
    bool waits;
};
inline __constinit PendingWrite pending{};

// A plain read of what atomics write: harmless if the thread then compares and swaps there, as loops over atomicCAS begin.
struct Suspect {
    Conflict conflict;
    bool waits;
};
inline __constinit Suspect suspects[1024] = {};
inline __constinit bool any_suspect = false;

EMU_COLD inline void settle_pending() {
    pending.waits = false;
    const Conflict& conflict = pending.conflict;
    bool same = conflict.bytes <= sizeof pending.before &&
                memcmp(pending.before, reinterpret_cast<const void*>(conflict.address), conflict.bytes) == 0;
    report_race(conflict, same);
}

EMU_COLD inline void settle_suspect(unsigned thread) {
    if (!suspects[thread].waits) return;
    suspects[thread].waits = false;
    report_race(suspects[thread].conflict, false);
}
EMU_COLD inline void settle_suspects() {
    any_suspect = false;
    for (unsigned thread = 0; thread < 1024; ++thread) settle_suspect(thread);
}

EMU_COLD inline void found(const Conflict& conflict) {
    if (conflict.writes && conflict.bytes <= sizeof pending.before) {
        pending.conflict = conflict;
        emu_libc_memcpy(pending.before, reinterpret_cast<const void*>(conflict.address), conflict.bytes);
        pending.waits = true;
        forget_cache();  // so the next access takes the long way
        return;
    }
    if (!conflict.writes && conflict.with_atomic) {
        settle_suspect(conflict.thread);
        suspects[conflict.thread] = {conflict, true};
        any_suspect = true;
        return;
    }
    report_race(conflict, false);
}

// The last write of a cell, which may race with this access.
EMU_COLD inline bool check_writer(const Cell& cell, uintptr_t address, unsigned bytes, uint32_t mask, uint32_t who, bool writes, Kind kind) {
    if (!(cell.bits >> written_shift & mask) || cell.write_time < clock.launch) return false;
    unsigned self = who & 1023, other = cell.writer & 1023;
    bool atomically = cell.bits & atomic_write;
    if (atomically && kind == Kind::Atomic) return false;
    bool between = cell.write_time < clock.block;
    if (between ? blocks_ordered(cell.write_time, self) : other == self || threads_ordered(cell.write_time, other, self)) return false;
    // A flag: a volatile that one thread writes, behind a fence if the other is of its block, and another reads.
    if (kind == Kind::Volatile && cell.bits & volatile_write && !writes && (between || is_released(address))) return false;
    found({address, bytes, place_in(who), place_in(cell.writer), self, other, writes, true, between, !between && other / 32 == self / 32,
           kind == Kind::Volatile || (cell.bits & volatile_write) != 0, atomically || kind == Kind::Atomic});
    return true;
}

EMU_COLD inline bool check_reader(const Cell& cell, uintptr_t address, unsigned bytes, uint32_t mask, uint32_t who, Kind kind) {
    if (!(cell.bits >> read_shift & mask) || cell.read_time < clock.launch) return false;
    unsigned self = who & 1023, other = cell.reader & 1023;
    if (kind == Kind::Volatile && cell.bits & volatile_read && is_released(address)) return false;
    bool many = cell.bits & (many_lanes | many_warps);
    bool between = cell.read_time < clock.block || (cell.bits & other_block && !(cell.read_time >= clock.barrier && (many || other != self)));
    bool in_warp = !between && other / 32 == self / 32 && !(cell.bits & many_warps);
    if (between ? blocks_ordered(cell.read_time, self) : (other == self && !many) || threads_ordered(cell.read_time, other, self)) return false;
    found({address, bytes, place_in(who), place_in(cell.reader), self, other, true, false, between, in_warp,
           kind == Kind::Volatile || (cell.bits & volatile_read) != 0, kind == Kind::Atomic});
    return true;
}

EMU_COLD inline void bad_memory(const Cell& cell, uintptr_t address, uintptr_t cell_address, unsigned bytes, uint32_t mask, uint32_t who,
                                bool writes) {
    uint32_t missing = mask & ~(cell.bits >> allocated_shift);
    if (missing) {
        char what[40];
        snprintf(what, sizeof what, "%s %u bytes", writes ? "writes" : "reads", bytes);
        return report_out_of_bounds(missing == mask && address < cell_address ? cell_address : address, what, place_in(who));
    }
    missing = mask & ~(cell.bits >> initialised_shift);
    if (!writes && missing) report_uninitialised(cell_address + static_cast<unsigned>(__builtin_ctz(missing)), place_in(who));
    if (writes && cell.bits & read_only) report_read_only(address, place_in(who));
}

// The general form of a check, for what the short one in sanitizer.h leaves.
EMU_RAW inline bool may_race(uint32_t time) { return time >= clock.launch && (time >= clock.barrier || time < clock.block); }

EMU_COLD inline uint32_t other_readers(const Cell& cell, uint32_t who) {
    uint32_t time = cell.read_time, kept = cell.bits & other_block;
    if (time < clock.launch) return 0;
    if (time < clock.block) return other_block;
    if (time < clock.barrier) return kept;
    unsigned self = who & 1023, other = cell.reader & 1023;
    if (other == self) return cell.bits & (other_block | many_lanes | many_warps);
    if (threads_ordered(time, other, self)) return kept;
    return kept | (cell.bits & (many_lanes | many_warps)) | (other / 32 == self / 32 ? many_lanes : many_warps);
}

EMU_COLD inline bool read_cell(Cell& cell, uintptr_t address, uintptr_t at, unsigned bytes, uint32_t mask, uint32_t who, Kind kind,
                               bool reported) {
    uint32_t need = mask << allocated_shift | mask << initialised_shift;
    if ((cell.bits & need) != need) {
        if (!reported) bad_memory(cell, address, at, bytes, mask, who, false);
        reported = true;
        if (mask & ~(cell.bits >> allocated_shift)) return true;  // who writes it later races with this read
    }
    if (may_race(cell.write_time) && !reported) reported = check_writer(cell, address, bytes, mask, who, false, kind);
    uint32_t flags = other_readers(cell, who) | (kind == Kind::Volatile ? volatile_read : 0);
    constexpr uint32_t replaced = 0xfu << read_shift | many_lanes | many_warps | other_block | volatile_read;
    uint32_t kept = cell.read_time >= clock.barrier ? cell.bits & 0xfu << read_shift : 0;
    cell.bits = (cell.bits & ~replaced) | flags | kept | mask << read_shift;
    cell.read_time = clock.time;
    cell.reader = who;
    return reported;
}

EMU_COLD inline bool write_cell(Cell& cell, uintptr_t address, uintptr_t at, unsigned bytes, uint32_t mask, uint32_t who, Kind kind,
                                bool reported) {
    if ((cell.bits & (mask | read_only)) != mask) {
        if (!reported) bad_memory(cell, address, at, bytes, mask, who, true);
        reported = true;
        if ((cell.bits & mask) != mask) return true;
    }
    if (may_race(cell.write_time) && !reported) reported = check_writer(cell, address, bytes, mask, who, true, kind);
    if ((may_race(cell.read_time) || (cell.bits & other_block && cell.read_time >= clock.launch)) && !reported)
        reported = check_reader(cell, address, bytes, mask, who, kind);
    uint32_t kept = cell.write_time == clock.time && ((cell.writer ^ who) & 1023) == 0 ? cell.bits & 0xfu << written_shift : 0;
    constexpr uint32_t replaced = 0xfu << written_shift | atomic_write | volatile_write;
    cell.bits = (cell.bits & ~replaced) | kept | mask << written_shift | mask << initialised_shift |
                (kind == Kind::Atomic ? atomic_write : kind == Kind::Volatile ? volatile_write : 0);
    cell.write_time = clock.time;
    cell.writer = who;
    return reported;
}

EMU_COLD inline void check_range(uintptr_t address, size_t bytes, const void* code, bool writes, Kind kind) {
    if (pending.waits) settle_pending();
    // The host's accesses race with nothing: launches run at once.
    if (clock.self == Clock::host) return writes ? mark_initialised(reinterpret_cast<const void*>(address), bytes) : void();
    last_code = code;
    uint32_t who = who_is_at(code);
    bool reported = false;
    for (uintptr_t at = address & ~uintptr_t{3}; at < address + bytes; at += 4) {
        Page* page = page_of(at);
        if (!page) {  // the rest of this page has no shadow either
            at |= (uintptr_t{1} << page_shift) - 4;
            continue;
        }
        Cell& cell = page->cells[(at >> 2) % page_cells];
        uint32_t mask = byte_mask(at, address, address + bytes);
        auto size = static_cast<unsigned>(bytes);
        // Structs are copied whole, with their padding: that is no use of it.
        bool partly = bytes > 16 && (cell.bits >> allocated_shift & mask) == mask && (cell.bits >> initialised_shift & mask) != mask;
        if (!writes && partly) continue;
        reported = writes ? write_cell(cell, address, at, size, mask, who, kind, reported)
                          : read_cell(cell, address, at, size, mask, who, kind, reported);
    }
}

// Who waits at which barrier, and which lanes take part in a warp-wide operation.
struct Barriers {
    uint32_t site[1024];      // of the barrier that a thread waits at or passed last; 0: none yet
    uint32_t last[1024];      // where a thread that has left made its last access
    uint32_t lane_site[1024]; // of the warp-wide operation
    bool waits[1024], has_left[1024], unreached[1024];
    unsigned arrived, left;
    uint32_t first_site;
    bool mixed;
    // The first barrier of the block that some threads had left without.
    uint32_t skipped, skipped_last;
    char skipped_text[300];
};
inline __constinit Barriers barriers{};

EMU_RAW inline void reset_barriers() { emu_libc_memset(&barriers, 0, sizeof barriers); }

// "0..15, 32..47" for the threads of the block that `chosen` names.
EMU_COLD inline Words ranges_of(const bool* chosen) {
    Words ranges{};
    unsigned size = worker->launch()->threads(), length = 0, count = 0;
    for (unsigned at = 0; at < size; ++at) {
        if (!chosen[at]) continue;
        unsigned from = at;
        while (at + 1 < size && chosen[at + 1]) ++at;
        const char* comma = count ? ", " : "";
        if (++count > 5) {
            snprintf(ranges.text + length, sizeof ranges.text - length, " ...");
            break;
        }
        int written = from == at ? snprintf(ranges.text + length, sizeof ranges.text - length, "%s%u", comma, at)
                                 : snprintf(ranges.text + length, sizeof ranges.text - length, "%s%u..%u", comma, from, at);
        length += static_cast<unsigned>(written);
    }
    return ranges;
}

EMU_COLD __attribute__((format(printf, 4, 5))) inline void report_barrier(Severity severity, uint32_t site, uint32_t other, const char* format, ...) {
    Finding* finding = enter("divergent_barrier", severity, site, other);
    if (!finding) return;
    char text[460];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    finish(*finding, "%s", text);
}

// Where bar.sync 0 stands, which is the same barrier as __syncthreads().
inline __constinit const void* barrier_code = nullptr;
EMU_RAW inline void barrier_called_at(const void* code) { barrier_code = code; }

EMU_RAW inline __attribute__((always_inline)) void barrier_reached(const void* code) {
    unsigned self = clock.self & 1023;
    if (barrier_code) code = barrier_code;
    barrier_code = nullptr;
    uint32_t place = place_of(code);
    if (barriers.arrived++ == 0) barriers.first_site = place;
    barriers.mixed |= barriers.first_site != place;
    barriers.site[self] = place;
    barriers.waits[self] = true;
}

EMU_RAW inline void thread_left(unsigned self) {
    barriers.has_left[self] = true;
    barriers.last[self] = last_code ? place_of(last_code) : 0;
    ++barriers.left;
}

// Threads of one block wait at different barriers, and meet: in one warp that is undefined.
EMU_COLD inline void judge_mixed() {
    uint32_t site = barriers.first_site, other = site;
    bool in_warp = false, here[1024] = {}, there[1024] = {};
    unsigned size = worker->launch()->threads();
    for (unsigned at = 0; at < size; ++at)
        if (barriers.waits[at] && barriers.site[at] != site && other == site) other = barriers.site[at];
    for (unsigned at = 0; at < size; ++at) {
        here[at] = barriers.waits[at] && barriers.site[at] == site;
        there[at] = barriers.waits[at] && barriers.site[at] == other;
    }
    for (unsigned at = 0; at < size; ++at)
        for (unsigned lane = at & ~31u; here[at] && lane < size && lane < (at | 31u) + 1; ++lane) in_warp |= there[lane];
    report_barrier(in_warp ? Severity::Error : Severity::Warning, site, other, "threads %s wait at {0}; threads %s wait at {1}: %s",
                   ranges_of(here).text, ranges_of(there).text,
                   in_warp ? "lanes of one warp are at different barriers, which is undefined" : "warps of one block meet at different barriers");
}

// Threads that have left are not waited for.  That is an error only where the others need what they did not do.
EMU_COLD inline void judge_left() {
    uint32_t site = barriers.first_site, last = 0;
    bool passed_before = false;
    for (unsigned at = 0; at < worker->launch()->threads(); ++at) {
        if (!barriers.has_left[at]) continue;
        passed_before |= barriers.site[at] == site;
        if (!last) last = barriers.last[at];
    }
    if (!passed_before && barriers.skipped) return;
    char text[460];
    snprintf(text, sizeof text, "threads %s wait at {0}; threads %s left the kernel%s", ranges_of(barriers.waits).text,
             ranges_of(barriers.has_left).text, last ? ", last seen at {1}" : "");
    if (passed_before) report_barrier(Severity::Warning, site, last, "%s", text);
    if (barriers.skipped) return;
    barriers.skipped = site;
    barriers.skipped_last = last;
    snprintf(barriers.skipped_text, sizeof barriers.skipped_text, "%.280s", text);
}

EMU_COLD inline void judge_barrier() {
    if (barriers.mixed) judge_mixed();
    if (barriers.left) judge_left();
    emu_libc_memset(barriers.waits, 0, sizeof barriers.waits);
    barriers.arrived = 0;
    barriers.mixed = false;
}

// Shared memory is not as the kernel expects it: was there a barrier that not all threads took part in?
EMU_COLD inline void suspect_barrier() {
    if (!barriers.skipped) return;
    report_barrier(Severity::Warning, barriers.skipped, barriers.skipped_last, "%s; what they should have written to shared memory is missing",
                   barriers.skipped_text);
}

// Nobody of the block can run any more.
EMU_COLD inline void block_is_stuck() {
    report_barrier(Severity::Error, barriers.first_site, 0, "threads %s wait at {0} for threads that never come", ranges_of(barriers.waits).text);
    flush_findings();
}

EMU_COLD inline Finding* enter_lane(unsigned linear) {
    Finding* finding = enter("inactive_lane", Severity::Error, barriers.lane_site[linear]);
    if (finding) finding->thread = index_of(linear);
    return finding;
}

EMU_RAW inline void lane_arrives(const void* code, unsigned mask) {
    unsigned self = self_linear();
    barriers.lane_site[self] = place_of(code);
    if (mask >> self % 32 & 1) return;
    if (Finding* finding = enter_lane(self)) finish(*finding, "the mask 0x%08x at {0} does not name lane %u, which executes it", mask, self % 32);
}

// The lanes of `group` have met in one operation.
EMU_RAW inline void lanes_met(const Thread* lanes, unsigned group) {
    unsigned warp = lanes[__builtin_ctz(group)].linear / 32;
    join_lanes(warp, group, worker->warp_at(warp).live);
}

EMU_COLD inline void lane_is_absent(const Thread& reader) {
    if (Finding* finding = enter_lane(reader.linear))
        finish(*finding, "lane %u reads from lane %u at {0}, which has exited or does not take part: the value is undefined", reader.lane(),
               static_cast<unsigned>(reader.source_lane));
}

// Lanes go on because nobody else can run, though their masks name others that live.
EMU_COLD inline void lanes_missing(const Thread* lanes, unsigned group, unsigned live) {
    for (unsigned rest = group; rest; rest &= rest - 1) {
        const Thread& thread = lanes[__builtin_ctz(rest)];
        unsigned missing = thread.mask & live & ~group;
        if (thread.operation == Collective::Active || !missing) continue;
        if (Finding* finding = enter_lane(thread.linear))
            finish(*finding, "the mask 0x%08x at {0} names lane %d, which never executes it", thread.mask, __builtin_ctz(missing));
    }
}

}  // namespace sanitizer
}  // namespace emu
