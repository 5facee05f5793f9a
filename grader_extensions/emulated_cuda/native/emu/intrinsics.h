// What kernels call: shared memory and barriers, shuffles, votes, matches and reductions of a warp, loads and stores with cache hints, clocks,
// and questions about address spaces: on the host all memory is one memory.
#pragma once

#include <string.h>
#include <time.h>
#include <type_traits>

#include "block.h"

namespace emu EMU_HIDDEN {

inline unsigned next_shared_slot = 0;
template <class T>
inline const unsigned shared_slot = __atomic_fetch_add(&next_shared_slot, 1, __ATOMIC_RELAXED);

template <class T>
EMU_INLINE T& emu_shared() {
    static_assert(sizeof(T) <= default_shared_bytes, "uses too much shared data: a kernel has 48 KiB of static shared memory");
    return *static_cast<T*>(worker->static_shared(shared_slot<T>, sizeof(T), alignof(T)));
}

// A declaration that asks for more alignment than 16 has it from the first launch on.
template <size_t bytes>
inline const bool dynamic_alignment_asked = [] {
    if (bytes > dynamic_alignment && bytes <= 1024) dynamic_alignment = bytes;
    return true;
}();

// T is an array of unknown (or any) bound: the block has one dynamic array, whatever its names.
template <class T, size_t alignment = 16>
inline T& emu_dynamic_shared() {
    if constexpr (alignment > 16) (void)dynamic_alignment_asked<alignment>;
    return *static_cast<T*>(worker->dynamic_shared());
}

}  // namespace emu

#ifdef EMU_SANITIZE
// References of their own: g++ gives what a structured binding stands for the line of its declaration.
#define EMU_AGAIN ()
#define EMU_FOUR_TIMES(...) EMU_TWICE(EMU_TWICE(__VA_ARGS__))
#define EMU_TWICE(...) EMU_ONCE(EMU_ONCE(EMU_ONCE(EMU_ONCE(__VA_ARGS__))))
#define EMU_ONCE(...) __VA_ARGS__
#define EMU_BIND(all, name, ...) auto& name = ::emu::sanitizer::named(all.name, #name); __VA_OPT__(EMU_BIND_AGAIN EMU_AGAIN(all, __VA_ARGS__))
#define EMU_BIND_AGAIN() EMU_BIND
#define EMU_SHARED(T, ...) T& all_of_##T = ::emu::emu_shared<T>(); EMU_FOUR_TIMES(EMU_BIND(all_of_##T, __VA_ARGS__))
#else
#define EMU_SHARED(T, ...) auto& [__VA_ARGS__] = ::emu::emu_shared<T>()
#endif

EMU_INLINE void __syncthreads() { emu::worker->barrier(true); }
EMU_INLINE int __syncthreads_count(int predicate) {
    emu::worker->barrier(predicate != 0);
    return static_cast<int>(emu::worker->votes().count);
}
EMU_INLINE int __syncthreads_and(int predicate) {
    emu::worker->barrier(predicate != 0);
    return emu::worker->votes().all;
}
EMU_INLINE int __syncthreads_or(int predicate) {
    // A plain barrier that meets this one in divergent code votes too; real barriers of that kind are undefined.
    emu::worker->barrier(predicate != 0);
    return emu::worker->votes().any;
}

EMU_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMU_INLINE void __threadfence_block() {
    EMU_TELL(fence(::emu::sanitizer::block_scope));
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
EMU_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { emu::worker->yield(); }

namespace emu EMU_HIDDEN {

inline unsigned lane() { return worker->current().lane(); }

template <class T>
uint64_t to_bits(const T& value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "only values of up to 8 bytes can be shuffled");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

EMU_INLINE uint64_t exchange(Collective operation, unsigned mask, uint64_t given, unsigned source_lane = 0) {
    worker->collect(operation, mask, given, source_lane);
    return worker->current().received;
}

template <class T>
EMU_INLINE T shuffle(unsigned mask, const T& value, unsigned source_lane) {
    uint64_t bits = exchange(Collective::Shuffle, mask, to_bits(value), source_lane);
    T received;
    memcpy(static_cast<void*>(&received), &bits, sizeof received);
    return received;
}

}  // namespace emu

template <class T>
EMU_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    unsigned lane = emu::lane(), w = static_cast<unsigned>(width);
    return emu::shuffle(mask, value, (lane & ~(w - 1)) | (static_cast<unsigned>(source) & (w - 1)));
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = emu::lane(), first = lane & ~(static_cast<unsigned>(width) - 1);
    return emu::shuffle(mask, value, delta <= lane - first ? lane - delta : lane);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = emu::lane(), last = lane | (static_cast<unsigned>(width) - 1);
    return emu::shuffle(mask, value, delta <= last - lane ? lane + delta : lane);
}
template <class T>
EMU_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
    unsigned lane = emu::lane(), last = lane | (static_cast<unsigned>(width) - 1), source = lane ^ static_cast<unsigned>(lane_mask);
    return emu::shuffle(mask, value, source <= last ? source & 31 : lane);
}

EMU_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { emu::worker->collect(emu::Collective::Sync, mask, 0); }
EMU_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return static_cast<unsigned>(emu::exchange(emu::Collective::Ballot, mask, predicate != 0));
}
EMU_INLINE int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
EMU_INLINE int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
EMU_INLINE int __uni_sync(unsigned mask, int predicate) {
    unsigned votes = __ballot_sync(mask, predicate);
    return votes == 0 || votes == (mask & emu::worker->warp().live);
}
// The lanes that stand at the same place of the source.
EMU_INLINE unsigned __activemask(unsigned line = __builtin_LINE()) {
    return static_cast<unsigned>(emu::exchange(emu::Collective::Active, 0xffffffffu, line));
}

template <class T>
EMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    return static_cast<unsigned>(emu::exchange(emu::Collective::MatchAny, mask, emu::to_bits(value)));
}
template <class T>
EMU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
    auto lanes = static_cast<unsigned>(emu::exchange(emu::Collective::MatchAll, mask, emu::to_bits(value)));
    *all_equal = lanes != 0;
    return lanes;
}

#define EMU_REDUCE(name, operation, T)                                                             \
    EMU_INLINE T __reduce_##name##_sync(unsigned mask, T value) {                                      \
        return static_cast<T>(emu::exchange(emu::Collective::operation, mask, emu::to_bits(value))); \
    }
EMU_REDUCE(add, Add, unsigned)
EMU_REDUCE(add, Add, int)
EMU_REDUCE(min, Min, unsigned)
EMU_REDUCE(min, MinSigned, int)
EMU_REDUCE(max, Max, unsigned)
EMU_REDUCE(max, MaxSigned, int)
EMU_REDUCE(and, And, unsigned)
EMU_REDUCE(or, Or, unsigned)
EMU_REDUCE(xor, Xor, unsigned)
#undef EMU_REDUCE

template <class T>
EMU_INLINE T __ldg(const T* address) { return *address; }
#define EMU_LOAD(name)                           \
    template <class T>                           \
    EMU_INLINE T name(const T* address) {                   \
        return *address;                         \
    }
#define EMU_STORE(name)                          \
    template <class T>                           \
    EMU_INLINE void name(T* address, T value) {             \
        *address = value;                        \
    }
EMU_LOAD(__ldca) EMU_LOAD(__ldcg) EMU_LOAD(__ldcs) EMU_LOAD(__ldlu) EMU_LOAD(__ldcv)
EMU_STORE(__stwb) EMU_STORE(__stcg) EMU_STORE(__stcs) EMU_STORE(__stwt)
#undef EMU_LOAD
#undef EMU_STORE

inline unsigned long long __globaltimer() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long long>(now.tv_sec) * 1000000000ull + static_cast<unsigned long long>(now.tv_nsec);
}
// Named apart from the C library's clock(), which kernels reach by the same name.
inline long long clock64() { return static_cast<long long>(__builtin_ia32_rdtsc()); }

[[noreturn]] inline void __trap() { emu::trap("__trap()"); }
inline void __brkpt() { emu::trap("__brkpt()"); }
inline size_t __cvta_generic_to_shared(const void* address) { return emu::worker->shared_window().offset_of(address); }
inline void* __cvta_shared_to_generic(size_t offset) { return emu::worker->shared_window().at(offset); }
// Global, constant and local addresses are the generic ones.
inline size_t __cvta_generic_to_global(const void* address) { return reinterpret_cast<size_t>(address); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline unsigned __isShared(const void* address) { return emu::worker->shared_window().contains(address); }
inline unsigned __isLocal(const void* address) { return emu::worker->on_stack(address); }
inline unsigned __isGlobal(const void* address) { return !__isShared(address) && !__isLocal(address); }
#define __builtin_assume(condition) ((void)0)
#define __assume(condition) ((void)0)
