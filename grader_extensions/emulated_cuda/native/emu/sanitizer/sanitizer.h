// The emulated device's sanitizer, for EMU_SANITIZE: finds races, accesses out of bounds, reads of what nobody wrote, misaligned accesses,
// divergent barriers and absent lanes.  g++ instruments the code (grader_extensions/emulated_cuda/gcc.py); the hooks are here, those that it
// calls for every load and store under -fsanitize=thread first.  Their names and types are the compiler's (gcc/sanitizer.def).
#pragma once

#include <math.h>

#include <type_traits>

#include "counts.h"

// Which bytes of a thread's local variables nothing has written.  `emulation.py` marks where each variable without an initialiser begins
// and ends.  The marks take its address, so g++ keeps it in memory and reports its accesses.
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
inline __constinit Locals locals{};

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
    if (!locals.table && !(locals.table = reserve<LocalTable>())) return;
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

#ifdef EMU_PLAIN
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
#define EMU_COPY_HOOK(name)                                                                    \
    EMU_HOOK void* emu_checked_##name(void* to, const void* from, size_t bytes) noexcept {    \
        access_range(from, bytes, EMU_CODE, false);                                           \
        access_range(to, bytes, EMU_CODE, true);                                              \
        return emu_libc_##name(to, from, bytes);                                              \
    }
EMU_COPY_HOOK(memcpy)
EMU_COPY_HOOK(memmove)
#undef EMU_COPY_HOOK
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

// Atomics under -fsanitize=thread: g++ has these calls do the work.  They do not race with each other, only with plain accesses.
namespace emu EMU_HIDDEN {
namespace sanitizer {

inline constexpr int release = 3;  // the least of g++'s orders that tells others

EMU_COLD inline void check_atomic(uintptr_t address, unsigned bytes, const void* code, int order, bool reads, bool writes, bool swaps) {
    if (order >= release && writes) fence(device_scope);
    synchronise_by(address, writes);  // of memory that is not watched, too, as a `__device__` variable is
    Page* page = page_of(address);
    if (!page) return;
    if (clock.self == Clock::host) return writes ? mark_initialised(reinterpret_cast<const void*>(address), bytes) : void();
    last_code = code;
    uint32_t self = clock.self, who = who_is_at(code);
    if (swaps && suspects[self].waits && suspects[self].conflict.address == address) suspects[self].waits = false;
    bool reported = false;
    for (uintptr_t at = address & ~uintptr_t{3}; at < address + bytes; at += 4) {
        if (at >> page_shift != page->number) return;  // misaligned: not an atomic on any device
        Cell& cell = page->cells[(at >> 2) % page_cells];
        uint32_t mask = byte_mask(at, address, address + bytes);
        if (reads && (cell.bits >> allocated_shift & mask) == mask && (cell.bits >> initialised_shift & mask) != mask && !reported) {
            report_uninitialised(at, place_in(who));
            reported = true;
        }
        // A plain read before one's own compare-and-swap is how loops over it begin: the swap says whether it was current.
        if (swaps && cell.read_time >= clock.block && (cell.reader & 1023) == self && !(cell.bits & (many_lanes | many_warps))) cell.read_time = 0;
        if (writes) reported = write_cell(cell, address, at, bytes, mask, who, Kind::Atomic, reported);
        else if (may_race(cell.write_time) && !reported) reported = check_writer(cell, address, bytes, mask, who, false, Kind::Atomic);
    }
}

EMU_RAW inline void before_atomic(const volatile void* pointer, unsigned bytes, const void* code, int order, bool reads, bool writes,
                                  bool swaps) {
    if (pending.waits) settle_pending();
    if (clock.counts && writes) count_access(reinterpret_cast<uintptr_t>(pointer), bytes, code, Access::Atomic);
    if (locals.unwritten_bytes) check_local(reinterpret_cast<uintptr_t>(pointer), bytes, code, !reads);
    check_atomic(reinterpret_cast<uintptr_t>(pointer), bytes, code, order, reads, writes, swaps);
}

template <class T>
EMU_RAW inline bool swap_atomic(volatile T* address, T* expected, T value) {
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

#define EMU_ATOMIC_HOOK(bits, R, name, parameters, reads, writes, swaps, ...)                                      \
    EMU_HOOK R __tsan_atomic##bits##_##name parameters {                                                          \
        before_atomic(p, bits / 8, EMU_CODE, order, reads, writes, swaps);                                        \
        __VA_ARGS__;                                                                                              \
    }
#define EMU_ATOMIC_UPDATE(bits, T, name)                                                                          \
    EMU_ATOMIC_HOOK(bits, T, fetch_##name, (volatile void* p, T value, int order), true, true, false,             \
                    return __atomic_fetch_##name(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST))
#define EMU_ATOMIC_SWAP(bits, T, kind)                                                                            \
    EMU_ATOMIC_HOOK(bits, bool, compare_exchange_##kind, (volatile void* p, void* expected, T value, int order, int), true, true, true, \
                    return swap_atomic(static_cast<volatile T*>(p), static_cast<T*>(expected), value))
#define EMU_ATOMIC_HOOKS(bits, T)                                                                                 \
    EMU_ATOMIC_HOOK(bits, T, load, (const volatile void* p, int order), true, false, false,                       \
                    return __atomic_load_n(static_cast<const volatile T*>(p), __ATOMIC_SEQ_CST))                  \
    EMU_ATOMIC_HOOK(bits, void, store, (volatile void* p, T value, int order), false, true, false,                \
                    __atomic_store_n(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST))                       \
    EMU_ATOMIC_HOOK(bits, T, exchange, (volatile void* p, T value, int order), false, true, false,                \
                    return __atomic_exchange_n(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST))             \
    EMU_ATOMIC_UPDATE(bits, T, add)                                                                               \
    EMU_ATOMIC_UPDATE(bits, T, sub)                                                                               \
    EMU_ATOMIC_UPDATE(bits, T, and)                                                                               \
    EMU_ATOMIC_UPDATE(bits, T, or)                                                                                \
    EMU_ATOMIC_UPDATE(bits, T, xor)                                                                               \
    EMU_ATOMIC_UPDATE(bits, T, nand)                                                                              \
    EMU_ATOMIC_SWAP(bits, T, strong)                                                                              \
    EMU_ATOMIC_SWAP(bits, T, weak)                                                                                \
    EMU_ATOMIC_HOOK(bits, T, compare_exchange_val, (volatile void* p, T expected, T value, int order, int), true, true, true, \
                    swap_atomic(static_cast<volatile T*>(p), &expected, value);                                   \
                    return expected)
EMU_ATOMIC_HOOKS(8, unsigned char)
EMU_ATOMIC_HOOKS(16, unsigned short)
EMU_ATOMIC_HOOKS(32, unsigned int)
EMU_ATOMIC_HOOKS(64, unsigned long)
#undef EMU_ATOMIC_HOOKS
#undef EMU_ATOMIC_SWAP
#undef EMU_ATOMIC_UPDATE
#undef EMU_ATOMIC_HOOK

EMU_HOOK void __tsan_atomic_thread_fence(int) {
    fence(device_scope);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EMU_HOOK void __tsan_atomic_signal_fence(int) {}

// What g++ calls under -fsanitize=alignment,bounds, with the static description of the place that it made (gcc/ubsan.cc).

struct TypeDescriptor {
    uint16_t kind, information;
    char name[1];  // quoted
};
struct SourceLocation {
    const char* file;
    uint32_t line, column;
};
struct OutOfBoundsData {
    SourceLocation location;
    const TypeDescriptor* array;
    const TypeDescriptor* index;
};
struct TypeMismatchData {
    SourceLocation location;
    const TypeDescriptor* type;
    unsigned char log_alignment, check_kind;
};

// A value of up to 64 bits is passed itself; its descriptor says whether it is signed.
EMU_COLD inline void report_bounds(const OutOfBoundsData& data, uintptr_t index, const void* code) {
    if (!worker || !worker->running()) return;
    uint32_t place = place_of(code);
    Finding* finding = enter("out_of_bounds", Severity::Error, place);
    if (!finding) return;
    unsigned bits = 1u << (data.index->information >> 1);
    long long value = static_cast<long long>(index);
    if (data.index->information & 1 && bits < 64) value = static_cast<long long>(static_cast<uint64_t>(index) << (64 - bits)) >> (64 - bits);
    snprintf(finding->memory, sizeof finding->memory, "%.60s", data.array->name);
    finish(*finding, "{0} uses index %lld, which is outside the array of type %.200s", value, data.array->name);
}

EMU_COLD inline void report_misaligned(const TypeMismatchData& data, uintptr_t address, const void* code) {
    if (!worker || !worker->running()) return;
    uint32_t place = place_of(code);
    Finding* finding = enter("misaligned", Severity::Error, place);
    if (!finding) return;
    Memory memory = memory_at(address);
    add_memory(*finding, memory);
    const char* what = data.check_kind == 0 ? "reads" : data.check_kind == 1 ? "writes" : "uses";
    finish(*finding, "{0} %s %.120s at byte %zu of %s: the address must be a multiple of %u", what, data.type->name,
           static_cast<size_t>(memory.region ? address - memory.begin : address % 4096), memory.region ? describe(memory).text : "a page",
           1u << data.log_alignment);
}

EMU_HOOK void __ubsan_handle_out_of_bounds(void* data, void* index) {
    report_bounds(*static_cast<OutOfBoundsData*>(data), reinterpret_cast<uintptr_t>(index), EMU_CODE);
}
EMU_HOOK void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
    report_misaligned(*static_cast<TypeMismatchData*>(data), reinterpret_cast<uintptr_t>(address), EMU_CODE);
}

EMU_COLD inline void memory_allocated(const void* address, size_t bytes) {
    prepare();
    add_region(address, bytes, "", Space::Global, true, false, false);
}
EMU_COLD inline void memory_released(const void* address) { remove_region(reinterpret_cast<uintptr_t>(address)); }

EMU_COLD inline void launch_begins() {
    prepare();
    if (pending.waits) settle_pending();
    clock.launch = clock.block = clock.barrier = ++clock.time;
    // Kernels lay out shared memory differently.
    for (size_t i = regions.count; i-- > 0;)
        if (regions.list[i].space == Space::Shared) remove_region(regions.list[i].begin);
    variables.count = 0;
}

EMU_COLD inline void launch_ends() {
    ++clock.time;
    flush_findings();
    count_launch();
}

EMU_COLD inline void block_begins() {
    clock.block = clock.barrier = ++clock.time;
    forget_locals_of_block();
    reset_order();
    reset_barriers();
    count_block();
}

// While the last thread is still the current one.
EMU_COLD inline void block_ends() {
    if (pending.waits) settle_pending();
    if (any_suspect) settle_suspects();
    end_counted_block();
    clock.self = Clock::host;
}

EMU_COLD inline void shared_memory(const void* address, size_t bytes, const char* name) {
    if (bytes == 0) return;
    auto begin = reinterpret_cast<uintptr_t>(address);
    const Region* known = region_at(begin);
    if (!known || known->end != begin + bytes || known->space != Space::Shared)
        return add_region(address, bytes, name, Space::Shared, true, false, false);
    for (uintptr_t number = begin >> page_shift; number <= (begin + bytes - 1) >> page_shift; ++number)
        if (Page* page = find_page(number)) reset_cells(*page, *known, begin, begin + bytes);
}

// Names a variable that lies in the block's shared memory, and hands it on.
template <class T>
EMU_RAW inline T& named(T& variable, const char* name) {
    name_variable(reinterpret_cast<uintptr_t>(&variable), sizeof variable, name);
    return variable;
}

EMU_RAW inline __attribute__((always_inline)) void thread_runs(unsigned linear) {
    clock.self = linear;
    clock.stack = reinterpret_cast<uintptr_t>(worker->running()->fiber->stack.mapping) + page_bytes;
    last_code = nullptr;
}

EMU_COLD inline void thread_ends() {
    if (pending.waits) settle_pending();
    settle_suspect(self_linear());
    if (locals.live) forget_locals(locals.table->threads[self_linear()]);
    thread_left(self_linear());
}

EMU_COLD inline void barrier_released() {
    if (pending.waits) settle_pending();
    if (any_suspect) settle_suspects();
    judge_barrier();
    join_block();
    count_barrier();
}

// Those warps of the block that have a lane at a barrier of their own.
EMU_COLD inline void named_released(const uint32_t* lanes) {
    if (pending.waits) settle_pending();
    uint32_t warps = 0;
    for (unsigned warp = 0; warp < 32; ++warp)
        if (lanes[warp]) warps |= 1u << warp;
    join_warps(warps);
}

// The process is about to die of what the current thread did.
EMU_COLD inline void faulted(const void* address, const void* code) {
    if (pending.waits) settle_pending();
    flush_counts();
    if (!code) return flush_findings();
    // The instruction itself, where others are what lies behind it.
    report_out_of_bounds(reinterpret_cast<uintptr_t>(address), "reads or writes", place_of(code) + 1);
    flush_findings();
}

struct FailedLaunch {
    uint32_t place;
    const char* error;
};
inline __constinit FailedLaunch failed_launch{};
inline __constinit const void* launch_code = nullptr;  // of the launch that is being made

EMU_COLD inline void launch_here() { launch_code = EMU_CODE; }

EMU_COLD inline void report_failed_launch() {
    if (!launch_unchecked) return;
    launch_unchecked = false;
    bool unsupported = strcmp(failed_launch.error, "cudaErrorNotSupported") == 0;  // by the sanitizer only
    Finding* finding = enter("unchecked_launch", unsupported ? Severity::Info : Severity::Error, failed_launch.place);
    if (!finding) return;
    if (unsupported) finish(*finding, "the launch at {0} was not run: the sanitizer follows neither cooperative launches nor clusters");
    else finish(*finding, "the launch at {0} failed with %s, so the kernel did not run, and the host never asked", failed_launch.error);
}

EMU_COLD inline void launch_failed(const char* error) {
    prepare();
    report_failed_launch();
    failed_launch = {place_of(launch_code), error};
    launch_unchecked = true;
    report_unchecked = &report_failed_launch;
}

__attribute__((destructor)) EMU_COLD inline void process_ends() {
    report_failed_launch();
    flush_findings();
    flush_counts();
}

}  // namespace sanitizer
}  // namespace emu

// Names memory that does not come from cudaMalloc.  The grader calls it before a launch, for every tensor.
extern "C" __attribute__((weak, used, visibility("default"), noinline)) EMU_RAW void emu_sanitizer_region(
    void* begin, size_t bytes, const char* name, int writable, int initialised) {
    emu::sanitizer::prepare();
    emu::sanitizer::add_region(begin, bytes, name, emu::sanitizer::Space::Global, writable != 0, initialised != 0, true);
}
