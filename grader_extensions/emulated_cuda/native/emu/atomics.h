// Atomics on any memory, between threads and between the OS threads that blocks run on.
#pragma once

#include <string.h>

#include "block.h"

#ifdef EMU_SANITIZE
#define EMU_SWAP_ORDER __ATOMIC_RELAXED
#else
#define EMU_SWAP_ORDER __ATOMIC_SEQ_CST
#endif

namespace emu EMU_HIDDEN {

// A thread that spins on an atomic must let the others of its block run now and then.
inline EMU_THREAD_LOCAL unsigned atomic_count = 0;
EMU_UNCHECKED void count_atomic() {
    if (++atomic_count % 4096 == 0 && worker && worker->in_kernel()) worker->yield();
}

// One turn of a loop in a source that has volatiles: it may spin on one.
EMU_UNCHECKED constexpr bool emu_turn() {
    if (!__builtin_is_constant_evaluated()) count_atomic();
    return true;
}

template <class T>
struct BitsOf {
    using type = std::conditional_t<sizeof(T) == 8, unsigned long long,
                                    std::conditional_t<sizeof(T) == 4, unsigned int, std::conditional_t<sizeof(T) == 2, unsigned short, unsigned char>>>;
};

template <class T, class Function>
EMU_INLINE T update(T* address, Function next) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(address);
    Bits seen = __atomic_load_n(bits, __ATOMIC_RELAXED);
    for (;;) {
        T old = __builtin_bit_cast(T, seen);
        auto wanted = __builtin_bit_cast(Bits, static_cast<T>(next(old)));
        if (__atomic_compare_exchange_n(bits, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
    }
}

template <class T>
EMU_INLINE T compare_and_swap(T* address, T compare, T value) {
    count_atomic();
    // CUDA's is relaxed; the stronger order is for those who spin on it between OS threads.
    __atomic_compare_exchange_n(address, &compare, value, false, EMU_SWAP_ORDER, EMU_SWAP_ORDER);
    return compare;
}

template <class T>
EMU_INLINE T exchange_value(T* address, T value) {
    using Bits = typename BitsOf<T>::type;
    count_atomic();
    return __builtin_bit_cast(T, __atomic_exchange_n(reinterpret_cast<Bits*>(address), __builtin_bit_cast(Bits, value), __ATOMIC_RELAXED));
}

}  // namespace emu

// Each operation exists also for the block and for the system; here they are the same.
#define EMU_ATOMIC_SCOPES(name, T, parameters, arguments, body) \
    EMU_INLINE T name parameters { body; }                          \
    EMU_INLINE T name##_block parameters { return name arguments; } \
    EMU_INLINE T name##_system parameters { return name arguments; }

#define EMU_ATOMIC(name, T, body) EMU_ATOMIC_SCOPES(name, T, (T * address, T value), (address, value), emu::count_atomic(); body)

#define EMU_ATOMIC_INTEGER(T)                                                                                     \
    EMU_ATOMIC(atomicAdd, T, return __atomic_fetch_add(address, value, __ATOMIC_RELAXED))                         \
    EMU_ATOMIC(atomicSub, T, return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED))                         \
    EMU_ATOMIC(atomicAnd, T, return __atomic_fetch_and(address, value, __ATOMIC_RELAXED))                         \
    EMU_ATOMIC(atomicOr, T, return __atomic_fetch_or(address, value, __ATOMIC_RELAXED))                           \
    EMU_ATOMIC(atomicXor, T, return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED))                         \
    EMU_ATOMIC(atomicExch, T, return emu::exchange_value(address, value))                                         \
    EMU_ATOMIC(atomicMin, T, return emu::update(address, [value](T old) { return value < old ? value : old; }))   \
    EMU_ATOMIC(atomicMax, T, return emu::update(address, [value](T old) { return old < value ? value : old; }))   \
    EMU_ATOMIC_SCOPES(atomicCAS, T, (T * address, T compare, T value), (address, compare, value),                 \
                      return emu::compare_and_swap(address, compare, value))

EMU_ATOMIC_INTEGER(int)
EMU_ATOMIC_INTEGER(unsigned int)
EMU_ATOMIC_INTEGER(unsigned long long)
EMU_ATOMIC(atomicMin, long long, return emu::update(address, [value](long long old) { return value < old ? value : old; }))
EMU_ATOMIC(atomicMax, long long, return emu::update(address, [value](long long old) { return old < value ? value : old; }))
EMU_ATOMIC(atomicAdd, float, return emu::update(address, [value](float old) { return old + value; }))
EMU_ATOMIC(atomicAdd, double, return emu::update(address, [value](double old) { return old + value; }))
// Each element by itself.
EMU_ATOMIC(atomicAdd, float2, return (float2{atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)}))
EMU_ATOMIC(atomicAdd, float4, return (float4{atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y),
                                             atomicAdd(&address->z, value.z), atomicAdd(&address->w, value.w)}))
EMU_ATOMIC(atomicExch, float, return emu::exchange_value(address, value))
EMU_ATOMIC_SCOPES(atomicCAS, unsigned short, (unsigned short* address, unsigned short compare, unsigned short value),
                  (address, compare, value), return emu::compare_and_swap(address, compare, value))
EMU_ATOMIC(atomicInc, unsigned int, return emu::update(address, [value](unsigned old) { return old >= value ? 0u : old + 1; }))
EMU_ATOMIC(atomicDec, unsigned int,
           return emu::update(address, [value](unsigned old) { return old == 0 || old > value ? value : old - 1; }))
