// Memory instructions of inline PTX (PTX ISA 8.7, 9.7.9 and 9.7.13): loads, stores, atomics, asynchronous copies, address spaces.
#pragma once

#include "../atomics.h"
#include "../copy_queue.h"
#include "../fault.h"
#include "arithmetic.h"

namespace emu EMU_HIDDEN {
namespace ptx {

inline char* emu_shared_address(uint32_t offset) { return worker->shared_window().at(offset); }
inline uint64_t emu_to_shared(uint64_t address) { return worker->shared_window().offset_of(reinterpret_cast<void*>(address)); }
inline uint64_t emu_from_shared(uint64_t offset) { return reinterpret_cast<uint64_t>(worker->shared_window().at(offset)); }
inline bool emu_is_shared_space(uint64_t address) { return __isShared(reinterpret_cast<void*>(address)); }
inline bool emu_is_global_space(uint64_t address) { return __isGlobal(reinterpret_cast<void*>(address)); }
inline bool emu_is_local_space(uint64_t address) { return __isLocal(reinterpret_cast<void*>(address)); }

// Vectors are aligned as a whole.
template <class T, unsigned count>
inline T* emu_aligned(char* address) {
    if (reinterpret_cast<uintptr_t>(address) % (sizeof(T) * count)) trap("misaligned address in inline PTX");
    return reinterpret_cast<T*>(address);
}

template <class T, unsigned count>
inline void emu_load(T (&to)[count], char* from) { memcpy(to, emu_aligned<T, count>(from), sizeof to); }
template <class T, unsigned count>
inline void emu_store(char* to, const T (&from)[count]) { memcpy(static_cast<void*>(emu_aligned<T, count>(to)), from, sizeof from); }
// Volatile, relaxed, acquire and release: a thread that spins on one lets the others run.
template <class T, unsigned count>
inline void emu_load_ordered(T (&to)[count], char* from) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(emu_aligned<T, count>(from));
    count_atomic();
    for (unsigned at = 0; at < count; ++at) {
        Bits value = __atomic_load_n(bits + at, __ATOMIC_SEQ_CST);
        memcpy(static_cast<void*>(&to[at]), &value, sizeof value);
    }
}
template <class T, unsigned count>
inline void emu_store_ordered(char* to, const T (&from)[count]) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(emu_aligned<T, count>(to));
    for (unsigned at = 0; at < count; ++at) {
        Bits value;
        memcpy(&value, &from[at], sizeof value);
        __atomic_store_n(bits + at, value, EMU_SWAP_ORDER);
    }
}

template <class T, class Function>
inline T updated(T* address, Function next) {
    count_atomic();
    return update(address, next);
}
template <class T>
inline T emu_atomic_add(T* address, T value) { return updated(address, [value](T old) { return emu_add<T, 0>(old, value); }); }
template <class T>
inline T emu_atomic_min(T* address, T value) { return updated(address, [value](T old) { return emu_minimum<T, 0>(old, value); }); }
template <class T>
inline T emu_atomic_max(T* address, T value) { return updated(address, [value](T old) { return emu_maximum<T, 0>(old, value); }); }
template <class T>
inline T emu_atomic_and(T* address, T value) { return updated(address, [value](T old) { return static_cast<T>(old & value); }); }
template <class T>
inline T emu_atomic_or(T* address, T value) { return updated(address, [value](T old) { return static_cast<T>(old | value); }); }
template <class T>
inline T emu_atomic_xor(T* address, T value) { return updated(address, [value](T old) { return static_cast<T>(old ^ value); }); }
template <class T>
inline T emu_atomic_inc(T* address, T limit) { return updated(address, [limit](T old) { return old >= limit ? T{0} : old + 1; }); }
template <class T>
inline T emu_atomic_dec(T* address, T limit) { return updated(address, [limit](T old) { return old == 0 || old > limit ? limit : old - 1; }); }
template <class T>
inline T emu_atomic_exch(T* address, T value) { return exchange_value(address, value); }
template <class T>
inline T emu_atomic_cas(T* address, T compare, T value) {
    using Bits = typename BitsOf<T>::type;
    return emu_read<T>(compare_and_swap(reinterpret_cast<Bits*>(address), emu_read<Bits>(compare), emu_read<Bits>(value)));
}

// cp.async: 4, 8 or 16 bytes, .cg only 16; what `given` leaves is filled with zeros.
template <bool only16>
EMU_INLINE void emu_copy_async(char* to, const char* from, uint32_t bytes, uint32_t given) {
    if (bytes != 16 && (only16 || (bytes != 4 && bytes != 8))) trap("cp.async of a size that it has not");
    if (given > bytes) trap("cp.async with a src-size above its cp-size");
    if ((reinterpret_cast<uintptr_t>(to) | (given ? reinterpret_cast<uintptr_t>(from) : 0)) % bytes) trap("misaligned address in cp.async");
    copy_queue().add(to, from, bytes, given);
}

}  // namespace ptx
}  // namespace emu
