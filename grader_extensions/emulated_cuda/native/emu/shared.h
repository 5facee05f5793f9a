// Shared memory and barriers, as kernels see them.  `__shared__ float a[4], b;` is rewritten to
//
//     struct emu_shared_1 { float a[4], b; }; EMU_SHARED(emu_shared_1, a, b);
#pragma once

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
