// Atomics under -fsanitize=thread: g++ has these calls do the work.  They do not race with each other, only with plain accesses.
#pragma once

#include "hooks.h"

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
                                  bool swaps = false) {
    if (pending.waits) settle_pending();
    if (clock.counts && writes) count_access(reinterpret_cast<uintptr_t>(pointer), bytes, code, Access::Atomic);
    if (locals.unwritten_bytes) check_local(reinterpret_cast<uintptr_t>(pointer), bytes, code, !reads);
    check_atomic(reinterpret_cast<uintptr_t>(pointer), bytes, code, order, reads, writes, swaps);
}

}  // namespace sanitizer
}  // namespace emu

#define EMU_ATOMIC_UPDATE(bits, T, name)                                                                      \
    EMU_HOOK T __tsan_atomic##bits##_##name(volatile void* p, T value, int order) {                           \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, true, true);                              \
        return __atomic_##name(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST);                         \
    }
#define EMU_ATOMIC_HOOKS(bits, T)                                                                             \
    EMU_HOOK T __tsan_atomic##bits##_load(const volatile void* p, int order) {                                \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, true, false);                             \
        return __atomic_load_n(static_cast<const volatile T*>(p), __ATOMIC_SEQ_CST);                          \
    }                                                                                                         \
    EMU_HOOK void __tsan_atomic##bits##_store(volatile void* p, T value, int order) {                         \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, false, true);                             \
        __atomic_store_n(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST);                               \
    }                                                                                                         \
    EMU_HOOK T __tsan_atomic##bits##_exchange(volatile void* p, T value, int order) {                         \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, false, true);                             \
        return __atomic_exchange_n(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST);                     \
    }                                                                                                         \
    EMU_ATOMIC_UPDATE(bits, T, fetch_add)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_sub)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_and)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_or)                                                                      \
    EMU_ATOMIC_UPDATE(bits, T, fetch_xor)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_nand)                                                                    \
    EMU_HOOK bool __tsan_atomic##bits##_compare_exchange_strong(volatile void* p, void* expected, T value, int order, int) { \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, true, true, true);                        \
        return __atomic_compare_exchange_n(static_cast<volatile T*>(p), static_cast<T*>(expected), value, false, __ATOMIC_SEQ_CST,  \
                                           __ATOMIC_SEQ_CST);                                                 \
    }                                                                                                         \
    EMU_HOOK bool __tsan_atomic##bits##_compare_exchange_weak(volatile void* p, void* expected, T value, int order, int) {   \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, true, true, true);                        \
        return __atomic_compare_exchange_n(static_cast<volatile T*>(p), static_cast<T*>(expected), value, false, __ATOMIC_SEQ_CST,  \
                                           __ATOMIC_SEQ_CST);                                                 \
    }                                                                                                         \
    EMU_HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile void* p, T expected, T value, int order, int) {           \
        emu::sanitizer::before_atomic(p, bits / 8, EMU_CODE, order, true, true, true);                        \
        __atomic_compare_exchange_n(static_cast<volatile T*>(p), &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
        return expected;                                                                                      \
    }
EMU_ATOMIC_HOOKS(8, unsigned char)
EMU_ATOMIC_HOOKS(16, unsigned short)
EMU_ATOMIC_HOOKS(32, unsigned int)
EMU_ATOMIC_HOOKS(64, unsigned long)
#undef EMU_ATOMIC_HOOKS
#undef EMU_ATOMIC_UPDATE

EMU_HOOK void __tsan_atomic_thread_fence(int) {
    emu::sanitizer::fence(emu::sanitizer::device_scope);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EMU_HOOK void __tsan_atomic_signal_fence(int) {}
