// What g++ calls for every load and store under -fsanitize=thread.  The names and types are the compiler's (gcc/sanitizer.def).
#pragma once

#include <math.h>

#include <type_traits>

#include "check.h"
#include "counts.h"

// Which bytes of a thread's local variables nothing has written.  `grader_extensions/emulated_cuda/emulation.py` marks where each variable without an initialiser begins and
// ends.  The marks take its address, so g++ keeps it in memory and reports its accesses.
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
    Finding* finding = variable ? enter("uninitialised_read", Severity::Error, place) : nullptr;
    if (!finding) return;
    snprintf(finding->memory, sizeof finding->memory, "%.47s (local)", variable->name);
    char which[40] = "";
    if (variable->end - variable->begin > 8) snprintf(which, sizeof which, "byte %zu of ", static_cast<size_t>(address - variable->begin));
    finish(*finding, "{0} reads %sthe local variable '%.47s', which this thread has not written", which, variable->name);
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

// Called at the end of a variable's scope, also of one that has not begun.
extern "C" __attribute__((weak, used, visibility("hidden"), noipa)) EMU_RAW void emu_local_ends(volatile void* address) noexcept {
    local_ends(reinterpret_cast<uintptr_t>(address));
}

#ifdef EMU_WITHOUT_LOCAL_VARIABLES
#define EMU_LOCAL_BEGINS(name)
#define EMU_LOCAL_ENDS
#else
#define EMU_LOCAL_BEGINS(name) ::emu::sanitizer::begin_local(name, #name);
#define EMU_LOCAL_ENDS __attribute__((cleanup(emu_local_ends)))
#endif

// The short form of a check: false where anything is out of the ordinary.
EMU_RAW inline __attribute__((always_inline)) bool written_before(const Cell& cell) {
    if (cell.write_time < clock.launch || cell.write_time - clock.block < clock.barrier - clock.block) return true;
    return cell.write_time >= clock.barrier && ((cell.writer ^ clock.self) & 1023) == 0;
}

EMU_RAW inline __attribute__((always_inline)) bool read_shortly(Cell& cell, uint32_t mask, const void* code) {
    uint32_t bits = cell.bits, need = mask << allocated_shift | mask << initialised_shift;
    if ((bits & need) != need || !written_before(cell)) return false;
    if (cell.read_time == clock.time) {  // nothing has been synchronised since: what is noted stays true
        uint32_t apart = (cell.reader ^ clock.self) & 1023;
        if (apart) bits |= apart >> 5 ? many_warps : many_lanes;
        bits |= mask << read_shift;
        if (bits != cell.bits) cell.bits = bits;
        return true;
    }
    if (cell.read_time >= clock.barrier) return false;
    constexpr uint32_t replaced = 0xfu << read_shift | many_lanes | many_warps | volatile_read;
    uint32_t flags = cell.read_time < clock.launch ? bits & ~(replaced | other_block) : bits & ~replaced;
    if (cell.read_time >= clock.launch && cell.read_time < clock.block) flags |= other_block;
    cell.bits = flags | mask << read_shift;
    cell.read_time = clock.time;
    cell.reader = who_is_at(code);
    last_code = code;
    return true;
}

EMU_RAW inline __attribute__((always_inline)) bool write_shortly(Cell& cell, uint32_t mask, const void* code) {
    uint32_t bits = cell.bits;
    if ((bits & (mask | read_only)) != mask || !written_before(cell)) return false;
    if (cell.read_time >= clock.barrier) {
        if ((cell.reader ^ clock.self) & 1023 || bits & (many_lanes | many_warps | other_block)) return false;
    } else if (cell.read_time >= clock.launch && (cell.read_time < clock.block || bits & other_block)) {
        return false;
    }
    constexpr uint32_t replaced = 0xfu << written_shift | atomic_write | volatile_write;
    uint32_t kept = cell.write_time == clock.time ? bits & 0xfu << written_shift : 0;
    cell.bits = (bits & ~replaced) | kept | mask << written_shift | mask << initialised_shift;
    cell.write_time = clock.time;
    cell.writer = who_is_at(code);
    last_code = code;
    return true;
}

EMU_COLD inline void check_missed(uintptr_t address, size_t bytes, const void* code, bool writes, Kind kind) {
    last_code = code;
    if (page_of(address) || page_of(address + bytes - 1)) return check_range(address, bytes, code, writes, kind);
    if (pending.waits) settle_pending();
    if (locals.unwritten_bytes) check_local(address, bytes, code, writes);
}

template <unsigned bytes, bool writes, Kind kind>
EMU_RAW inline __attribute__((always_inline)) void check_uncounted(uintptr_t address, const void* code) {
    const CacheEntry& entry = page_cache[(address >> page_shift) % cache_entries];
    if (kind == Kind::Volatile) synchronise_by(address, writes);
    if (kind == Kind::Plain && entry.number == address >> page_shift) [[likely]] {
        Page* page = entry.page;
        if (!page) {
            last_code = code;
            if (locals.unwritten_bytes) check_local(address, bytes, code, writes);
            return;
        }
        constexpr unsigned cells = bytes < 4 ? 1 : bytes / 4;
        unsigned first = (address >> 2) % page_cells, within = address % 4;
        if (clock.self != Clock::host && first + cells <= page_cells && (bytes < 4 ? within + bytes <= 4 : within == 0)) [[likely]] {
            uint32_t mask = bytes < 4 ? ((1u << bytes) - 1) << within : 0xf;
            bool done = true;
            for (unsigned i = 0; i < cells && done; ++i)
                done = writes ? write_shortly(page->cells[first + i], mask, code) : read_shortly(page->cells[first + i], mask, code);
            if (done) return;
        }
    }
    check_missed(address, bytes, code, writes, kind);
}

template <unsigned bytes, bool writes, Kind kind>
EMU_RAW inline __attribute__((noinline)) void check_counted(uintptr_t address, const void* code) {
    if (pending.waits) settle_pending();  // before the page is found: see `found`
    count_access(address, bytes, code, writes ? Access::Store : Access::Load);
    check_uncounted<bytes, writes, kind>(address, code);
}

template <unsigned bytes, bool writes, Kind kind>
EMU_RAW inline __attribute__((always_inline)) void check_access(const volatile void* pointer, const void* code) {
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address - clock.stack < stack_bytes) {  // of local variables there is no more to check
        last_code = code;
        if (locals.unwritten_bytes) check_local(address, bytes, code, writes);
        return;
    }
    if (clock.counts) [[unlikely]] return check_counted<bytes, writes, kind>(address, code);
    check_uncounted<bytes, writes, kind>(address, code);
}

#define EMU_HOOK extern "C" __attribute__((weak, used, visibility("hidden"), noinline)) EMU_RAW
#define EMU_CODE __builtin_extract_return_addr(__builtin_return_address(0))

#define EMU_ACCESS_HOOK(name, bytes, writes, kind) \
    EMU_HOOK void __tsan_##name##bytes(void* p) { check_access<bytes, writes, Kind::kind>(p, EMU_CODE); }
#define EMU_ACCESS_HOOKS(bytes)                           \
    EMU_ACCESS_HOOK(read, bytes, false, Plain)            \
    EMU_ACCESS_HOOK(write, bytes, true, Plain)            \
    EMU_ACCESS_HOOK(volatile_read, bytes, false, Volatile) \
    EMU_ACCESS_HOOK(volatile_write, bytes, true, Volatile)
EMU_ACCESS_HOOKS(1)
EMU_ACCESS_HOOKS(2)
EMU_ACCESS_HOOKS(4)
EMU_ACCESS_HOOKS(8)
EMU_ACCESS_HOOKS(16)
#undef EMU_ACCESS_HOOKS
#undef EMU_ACCESS_HOOK

EMU_RAW inline void access_range(const void* pointer, size_t bytes, const void* code, bool writes) {
    if (pending.waits) settle_pending();
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (clock.counts) count_range(address, bytes, code, writes);
    if (locals.unwritten_bytes) check_local(address, bytes, code, writes);
    if (bytes == 0 || (bytes <= 4096 && !page_of(address) && !page_of(address + bytes - 1))) return;
    check_range(address, bytes, code, writes, Kind::Plain);
}

EMU_HOOK void __tsan_init() {}
EMU_HOOK void __tsan_vptr_update(void*, void*) {}
EMU_HOOK void __tsan_vptr_read(void*) {}
EMU_HOOK void __tsan_func_entry(void*) {}
EMU_HOOK void __tsan_func_exit(void*) {}
EMU_HOOK void __tsan_read_range(void* p, __PTRDIFF_TYPE__ bytes) {
    access_range(p, static_cast<size_t>(bytes), EMU_CODE, false);
}
EMU_HOOK void __tsan_write_range(void* p, __PTRDIFF_TYPE__ bytes) {
    access_range(p, static_cast<size_t>(bytes), EMU_CODE, true);
}

// Calls of the C library are not instrumented: these stand before them.
EMU_HOOK void* emu_checked_memcpy(void* to, const void* from, size_t bytes) noexcept {
    access_range(from, bytes, EMU_CODE, false);
    access_range(to, bytes, EMU_CODE, true);
    return emu_libc_memcpy(to, from, bytes);
}
EMU_HOOK void* emu_checked_memmove(void* to, const void* from, size_t bytes) noexcept {
    access_range(from, bytes, EMU_CODE, false);
    access_range(to, bytes, EMU_CODE, true);
    return emu_libc_memmove(to, from, bytes);
}
EMU_HOOK void* emu_checked_memset(void* to, int value, size_t bytes) noexcept {
    access_range(to, bytes, EMU_CODE, true);
    return emu_libc_memset(to, value, bytes);
}

}  // namespace sanitizer
}  // namespace emu

using emu::sanitizer::emu_local_ends;  // `cleanup` takes no qualified name

// From here on the C library's names mean those above, for the compiler's own calls too.  What is as short as a register stays a load and a
// store, which are instrumented.
extern "C" {
void* memcpy(void*, const void*, size_t) noexcept __asm__("emu_checked_memcpy");
void* memmove(void*, const void*, size_t) noexcept __asm__("emu_checked_memmove");
void* memset(void*, int, size_t) noexcept __asm__("emu_checked_memset");

extern inline __attribute__((gnu_inline, always_inline)) void* memcpy(void* to, const void* from, size_t bytes) noexcept {
    if (__builtin_constant_p(bytes) && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16))
        return __builtin_memcpy(to, from, bytes);
    return emu::sanitizer::emu_checked_memcpy(to, from, bytes);
}
extern inline __attribute__((gnu_inline, always_inline)) void* memmove(void* to, const void* from, size_t bytes) noexcept {
    return emu::sanitizer::emu_checked_memmove(to, from, bytes);
}
extern inline __attribute__((gnu_inline, always_inline)) void* memset(void* to, int value, size_t bytes) noexcept {
    return emu::sanitizer::emu_checked_memset(to, value, bytes);
}
}

// Functions of the C library that write through a pointer: they are not instrumented, so these stand before them.
#define EMU_WRITES(pointer) emu::sanitizer::access_range(pointer, sizeof *(pointer), EMU_CODE, true)
#define EMU_CHECKED(R, name, parameters, arguments, writes)                  \
    extern "C" R emu_libm_##name parameters noexcept __asm__(#name);          \
    EMU_HOOK R emu_checked_##name parameters noexcept {                       \
        writes;                                                               \
        return emu_libm_##name arguments;                                     \
    }                                                                         \
    extern "C" R name parameters noexcept __asm__("emu_checked_" #name);
EMU_CHECKED(void, sincosf, (float x, float* sine, float* cosine), (x, sine, cosine), EMU_WRITES(sine); EMU_WRITES(cosine))
EMU_CHECKED(void, sincos, (double x, double* sine, double* cosine), (x, sine, cosine), EMU_WRITES(sine); EMU_WRITES(cosine))
EMU_CHECKED(float, frexpf, (float x, int* exponent), (x, exponent), EMU_WRITES(exponent))
EMU_CHECKED(double, frexp, (double x, int* exponent), (x, exponent), EMU_WRITES(exponent))
EMU_CHECKED(float, modff, (float x, float* whole), (x, whole), EMU_WRITES(whole))
EMU_CHECKED(double, modf, (double x, double* whole), (x, whole), EMU_WRITES(whole))
EMU_CHECKED(float, remquof, (float x, float y, int* quotient), (x, y, quotient), EMU_WRITES(quotient))
EMU_CHECKED(double, remquo, (double x, double y, int* quotient), (x, y, quotient), EMU_WRITES(quotient))
#undef EMU_CHECKED
#undef EMU_WRITES
