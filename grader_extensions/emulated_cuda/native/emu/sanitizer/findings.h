// What the sanitizer has found: one entry for each kind and pair of places, with a count, written as JSON lines after every launch.
// Fixed buffers and plain writes only: this also runs in a signal handler.
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

// What the sanitizer knows of every 4 bytes of device memory: who wrote and read it last, and which bytes exist and hold a value.
// Shadow pages are made when their memory is first touched.  Nothing here is instrumented, and nothing allocates in a signal handler.
// For what the compiler must not instrument: the hooks, and all that they call.
#define EMU_RAW __attribute__((no_sanitize("thread", "alignment", "bounds")))
#define EMU_COLD EMU_RAW __attribute__((noinline, cold))

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
inline constinit Clock clock;
inline constinit const void* last_code = nullptr;  // of the last access that was checked

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
inline constinit Regions regions;

// Pages by number, with open addressing; a cache of direct hits in front of it also holds the pages that have no shadow.
struct PageTable {
    Page** slots = nullptr;
    size_t capacity = 0, count = 0;
};
inline constinit PageTable pages;
struct CacheEntry {
    uintptr_t number;
    Page* page;
};
inline constexpr unsigned cache_entries = 512;
inline constinit CacheEntry page_cache[cache_entries] = {};

EMU_RAW inline size_t slot_of(uintptr_t number, size_t capacity) { return (number * 0x9e3779b97f4a7c15ull >> 20) & (capacity - 1); }

EMU_COLD inline Page* find_page(uintptr_t number) {
    if (pages.capacity == 0) return nullptr;
    for (size_t at = slot_of(number, pages.capacity);; at = (at + 1) & (pages.capacity - 1)) {
        if (!pages.slots[at]) return nullptr;
        if (pages.slots[at]->number == number) return pages.slots[at];
    }
}

EMU_RAW inline void insert_page(Page* page) {
    size_t at = slot_of(page->number, pages.capacity);
    while (pages.slots[at]) at = (at + 1) & (pages.capacity - 1);
    pages.slots[at] = page;
}

EMU_COLD inline void rebuild_table(size_t capacity, uintptr_t dropped) {
    PageTable old = pages;
    pages.slots = static_cast<Page**>(calloc(capacity, sizeof(Page*)));
    if (!pages.slots) abort();
    pages.capacity = capacity;
    pages.count = 0;
    for (size_t at = 0; at < old.capacity; ++at) {
        if (!old.slots[at]) continue;
        if (old.slots[at]->number == dropped) {
            munmap(old.slots[at], sizeof(Page));
        } else {
            insert_page(old.slots[at]);
            ++pages.count;
        }
    }
    free(old.slots);
}

EMU_RAW inline void forget_cache() {
    for (CacheEntry& entry : page_cache) entry = {0, nullptr};
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
    bool wanted = in_gap(begin);
    for (size_t i = 0; i < regions.count && !wanted; ++i) wanted = regions.list[i].begin < end && regions.list[i].end > begin;
    if (!wanted) return nullptr;
    void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* page = static_cast<Page*>(memory);
    page->number = number;
    for (size_t i = 0; i < regions.count; ++i) {
        const Region& region = regions.list[i];
        if (region.begin < end && region.end > begin) reset_cells(*page, region, region.begin, region.end);
    }
    if ((pages.count + 1) * 2 > pages.capacity) rebuild_table(pages.capacity ? pages.capacity * 2 : 1024, 0);
    insert_page(page);
    ++pages.count;
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
        bool used = false;
        uintptr_t from = number << page_shift, to = from + (1u << page_shift);
        for (size_t i = 0; i < regions.count && !used; ++i) used = regions.list[i].begin < to && regions.list[i].end > from;
        if (!used) {
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
        if (regions.list[i].begin < begin + bytes && regions.list[i].end > begin) remove_region(regions.list[i].begin);
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
inline constinit Findings findings{};

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

}  // namespace sanitizer
}  // namespace emu
