// Shared memory and barriers, as kernels see them.  `__shared__ float a[4], b;` is rewritten to
//
//     struct emu_shared_1 { float a[4], b; }; auto& [a, b] = ::emu::emu_shared<emu_shared_1>();
#pragma once

#include "block.h"

namespace emu EMU_HIDDEN {

inline unsigned next_shared_slot = 0;
template <class T>
inline const unsigned shared_slot = __atomic_fetch_add(&next_shared_slot, 1, __ATOMIC_RELAXED);

template <class T>
inline T& emu_shared() {
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

inline void __syncthreads() { emu::worker->barrier(true); }
inline int __syncthreads_count(int predicate) {
    emu::worker->barrier(predicate != 0);
    return static_cast<int>(emu::worker->votes().count);
}
inline int __syncthreads_and(int predicate) {
    emu::worker->barrier(predicate != 0);
    return emu::worker->votes().all;
}
inline int __syncthreads_or(int predicate) {
    // A plain barrier that meets this one in divergent code votes too; real barriers of that kind are undefined.
    emu::worker->barrier(predicate != 0);
    return emu::worker->votes().any;
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { emu::worker->yield(); }
