// Which bytes of a thread's local variables nothing has written.  `sandbox/compilers/emulation.py` marks where each variable without an initialiser begins and
// ends.  The marks take its address, so g++ keeps it in memory and reports its accesses.
#pragma once

#include <type_traits>

#include "report.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

inline constexpr unsigned local_limit = 64;         // variables of one thread
inline constexpr size_t local_page_limit = 1 << 14;  // pages of stacks
inline constexpr size_t widest_local_read = 16;      // structs that are wider are copied whole, which is no use of what they hold

struct LocalVariable {
    uintptr_t begin, end;
    const char* name;
};
struct ThreadLocals {
    unsigned count;
    LocalVariable list[local_limit];
};
struct LocalPage {
    uintptr_t number;
    uint64_t unwritten[(1u << page_shift) / 64];  // a bit for each byte
};
struct LocalTable {
    ThreadLocals threads[1024];
    LocalPage pages[local_page_limit];  // by number, with open addressing
};
struct Locals {
    LocalTable* table = nullptr;
    size_t page_count = 0;
    unsigned live = 0;             // variables of all threads
    uint64_t unwritten_bytes = 0;  // of them: 0 most of the time
};
inline constinit Locals locals{};

EMU_RAW inline LocalPage* local_page(uintptr_t number, bool wanted) {
    for (size_t at = slot_of(number, local_page_limit);; at = (at + 1) % local_page_limit) {
        LocalPage& page = locals.table->pages[at];
        if (page.number == number) return &page;
        if (page.number) continue;
        if (!wanted || locals.page_count == local_page_limit / 2) return nullptr;
        ++locals.page_count;
        page.number = number;
        return &page;
    }
}

enum class Bits : unsigned char { Count, Clear, Set };

// Says how many bits of a range are set, before it changes them.
EMU_RAW inline size_t unwritten_in(uintptr_t begin, uintptr_t end, Bits change) {
    size_t before = 0;
    while (begin < end) {
        uintptr_t stop = (begin | 63) + 1 < end ? (begin | 63) + 1 : end;
        LocalPage* page = local_page(begin >> page_shift, change == Bits::Set);
        if (page) {
            uint64_t& word = page->unwritten[begin % (1u << page_shift) / 64];
            uint64_t mask = (stop - begin == 64 ? ~uint64_t{0} : (uint64_t{1} << (stop - begin)) - 1) << begin % 64;
            auto count = static_cast<size_t>(__builtin_popcountll(word & mask));
            before += count;
            if (change != Bits::Count) {
                word = change == Bits::Set ? word | mask : word & ~mask;
                locals.unwritten_bytes += (change == Bits::Set ? stop - begin : 0) - count;
            }
        }
        begin = stop;
    }
    return before;
}

EMU_COLD inline const LocalVariable* local_at(uintptr_t address) {
    ThreadLocals& own = locals.table->threads[clock.self];
    for (unsigned i = own.count; i-- > 0;)
        if (own.list[i].begin <= address && address < own.list[i].end) return &own.list[i];
    return nullptr;
}

EMU_COLD inline void report_unwritten_local(uintptr_t address, uint32_t place) {
    const LocalVariable* variable = local_at(address);
    bool fresh = false;
    Finding* finding = variable ? enter("uninitialised_read", Severity::Error, &place, 1, &fresh) : nullptr;
    if (!finding || !fresh) return;
    add_context(*finding);
    snprintf(finding->memory, sizeof finding->memory, "%.47s (local)", variable->name);
    bool whole = variable->end - variable->begin <= 8;
    char which[40] = "";
    if (!whole) snprintf(which, sizeof which, "byte %zu of ", static_cast<size_t>(address - variable->begin));
    snprintf(finding->message, sizeof finding->message, "{0} reads %sthe local variable '%.47s', which this thread has not written", which,
             variable->name);
    finish(*finding);
}

// A read finds something only if nothing of what it reads was written: structs have padding, and are copied whole.
EMU_COLD inline void check_local(uintptr_t address, size_t bytes, const void* code, bool writes) {
    if (clock.self == Clock::host || bytes == 0) return;
    if (writes) {
        unwritten_in(address, address + bytes, Bits::Clear);
    } else if (bytes <= widest_local_read && unwritten_in(address, address + bytes, Bits::Count) == bytes) {
        unwritten_in(address, address + bytes, Bits::Clear);  // so that it is reported once
        report_unwritten_local(address, place_of(code));
    }
}

EMU_RAW inline __attribute__((noipa)) void local_begins(volatile void* address, size_t bytes, const char* name) {
    if (clock.self == Clock::host) return;
    if (!locals.table) {
        void* memory = mmap(nullptr, sizeof(LocalTable), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return;
        locals.table = static_cast<LocalTable*>(memory);
    }
    ThreadLocals& own = locals.table->threads[clock.self];
    if (own.count == local_limit) return;
    auto begin = reinterpret_cast<uintptr_t>(address);
    own.list[own.count++] = {begin, begin + bytes, name};
    ++locals.live;
    unwritten_in(begin, begin + bytes, Bits::Set);
}

// A thread that exits leaves its scopes without their ends, and a block that is given up leaves its threads.
EMU_COLD inline void forget_locals(ThreadLocals& own) {
    locals.live -= own.count;
    for (; own.count > 0; --own.count) unwritten_in(own.list[own.count - 1].begin, own.list[own.count - 1].end, Bits::Clear);
}
EMU_COLD inline void forget_locals_of_block() {
    for (unsigned thread = 0; locals.live && thread < 1024; ++thread) forget_locals(locals.table->threads[thread]);
}

// Types that are initialised by themselves are left alone.  g++ does not report what a call returns straight into a struct; with the checks of
// alignment it never does that.
template <class T>
EMU_RAW inline __attribute__((always_inline)) void begin_local(T& variable, const char* name) {
    using Element = std::remove_all_extents_t<T>;
    if constexpr (std::is_trivially_default_constructible_v<Element>)
        local_begins(const_cast<std::remove_cv_t<T>*>(&variable), sizeof variable, name);
}

EMU_RAW inline void local_ends(uintptr_t begin) {
    if (!locals.table || clock.self == Clock::host) return;
    ThreadLocals& own = locals.table->threads[clock.self];
    for (unsigned i = own.count; i-- > 0;) {
        if (own.list[i].begin != begin) continue;
        unwritten_in(begin, own.list[i].end, Bits::Clear);
        --locals.live;
        for (--own.count; i < own.count; ++i) own.list[i] = own.list[i + 1];
        return;
    }
}

}  // namespace sanitizer
}  // namespace emu

// Called at the end of a variable's scope, also of one that has not begun.
extern "C" __attribute__((weak, used, visibility("hidden"), noipa)) EMU_RAW void emu_local_ends(volatile void* address) noexcept {
    emu::sanitizer::local_ends(reinterpret_cast<uintptr_t>(address));
}

#ifdef EMU_WITHOUT_LOCAL_VARIABLES
#define EMU_LOCAL_BEGINS(name)
#define EMU_LOCAL_ENDS
#else
#define EMU_LOCAL_BEGINS(name) ::emu::sanitizer::begin_local(name, #name);
#define EMU_LOCAL_ENDS __attribute__((cleanup(emu_local_ends)))
#endif
