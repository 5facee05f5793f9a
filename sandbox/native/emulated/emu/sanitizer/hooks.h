// What g++ calls for every load and store under -fsanitize=thread.  The names and types are the compiler's (gcc/sanitizer.def).
#pragma once

#include "counts.h"
#include "locals.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

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

}  // namespace sanitizer
}  // namespace emu

#define EMU_HOOK extern "C" __attribute__((weak, used, visibility("hidden"), noinline)) EMU_RAW
#define EMU_CODE __builtin_extract_return_addr(__builtin_return_address(0))

#define EMU_ACCESS_HOOKS(bytes)                                                                                                        \
    EMU_HOOK void __tsan_read##bytes(void* p) {                                                                                        \
        emu::sanitizer::check_access<bytes, false, emu::sanitizer::Kind::Plain>(p, EMU_CODE);                                          \
    }                                                                                                                                  \
    EMU_HOOK void __tsan_write##bytes(void* p) {                                                                                       \
        emu::sanitizer::check_access<bytes, true, emu::sanitizer::Kind::Plain>(p, EMU_CODE);                                           \
    }                                                                                                                                  \
    EMU_HOOK void __tsan_volatile_read##bytes(void* p) {                                                                               \
        emu::sanitizer::check_access<bytes, false, emu::sanitizer::Kind::Volatile>(p, EMU_CODE);                                       \
    }                                                                                                                                  \
    EMU_HOOK void __tsan_volatile_write##bytes(void* p) {                                                                              \
        emu::sanitizer::check_access<bytes, true, emu::sanitizer::Kind::Volatile>(p, EMU_CODE);                                        \
    }
EMU_ACCESS_HOOKS(1)
EMU_ACCESS_HOOKS(2)
EMU_ACCESS_HOOKS(4)
EMU_ACCESS_HOOKS(8)
EMU_ACCESS_HOOKS(16)
#undef EMU_ACCESS_HOOKS

namespace emu EMU_HIDDEN {
namespace sanitizer {

EMU_RAW inline void access_range(const void* pointer, size_t bytes, const void* code, bool writes) {
    if (pending.waits) settle_pending();
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (clock.counts) count_range(address, bytes, code, writes);
    if (locals.unwritten_bytes) check_local(address, bytes, code, writes);
    if (bytes == 0 || (bytes <= 4096 && !page_of(address) && !page_of(address + bytes - 1))) return;
    check_range(address, bytes, code, writes, Kind::Plain);
}

}  // namespace sanitizer
}  // namespace emu

EMU_HOOK void __tsan_init() {}
EMU_HOOK void __tsan_vptr_update(void*, void*) {}
EMU_HOOK void __tsan_vptr_read(void*) {}
EMU_HOOK void __tsan_func_entry(void*) {}
EMU_HOOK void __tsan_func_exit(void*) {}
EMU_HOOK void __tsan_read_range(void* p, __PTRDIFF_TYPE__ bytes) {
    emu::sanitizer::access_range(p, static_cast<size_t>(bytes), EMU_CODE, false);
}
EMU_HOOK void __tsan_write_range(void* p, __PTRDIFF_TYPE__ bytes) {
    emu::sanitizer::access_range(p, static_cast<size_t>(bytes), EMU_CODE, true);
}

// Calls of the C library are not instrumented: these stand before them.
EMU_HOOK void* emu_checked_memcpy(void* to, const void* from, size_t bytes) noexcept {
    emu::sanitizer::access_range(from, bytes, EMU_CODE, false);
    emu::sanitizer::access_range(to, bytes, EMU_CODE, true);
    return emu_libc_memcpy(to, from, bytes);
}
EMU_HOOK void* emu_checked_memmove(void* to, const void* from, size_t bytes) noexcept {
    emu::sanitizer::access_range(from, bytes, EMU_CODE, false);
    emu::sanitizer::access_range(to, bytes, EMU_CODE, true);
    return emu_libc_memmove(to, from, bytes);
}
EMU_HOOK void* emu_checked_memset(void* to, int value, size_t bytes) noexcept {
    emu::sanitizer::access_range(to, bytes, EMU_CODE, true);
    return emu_libc_memset(to, value, bytes);
}

// From here on the C library's names mean those above, for the compiler's own calls too.  What is as short as a register stays a load and a
// store, which are instrumented.
extern "C" {
void* memcpy(void*, const void*, size_t) noexcept __asm__("emu_checked_memcpy");
void* memmove(void*, const void*, size_t) noexcept __asm__("emu_checked_memmove");
void* memset(void*, int, size_t) noexcept __asm__("emu_checked_memset");

extern inline __attribute__((gnu_inline, always_inline)) void* memcpy(void* to, const void* from, size_t bytes) noexcept {
    if (__builtin_constant_p(bytes) && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16))
        return __builtin_memcpy(to, from, bytes);
    return emu_checked_memcpy(to, from, bytes);
}
extern inline __attribute__((gnu_inline, always_inline)) void* memmove(void* to, const void* from, size_t bytes) noexcept {
    return emu_checked_memmove(to, from, bytes);
}
extern inline __attribute__((gnu_inline, always_inline)) void* memset(void* to, int value, size_t bytes) noexcept {
    return emu_checked_memset(to, value, bytes);
}
}
