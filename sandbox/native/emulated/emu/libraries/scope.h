// cuda::thread_scope and cuda::memory_order: the toolkit's own where it is installed, because its other headers use them too.
#pragma once

#include <cuda_runtime.h>

#if __has_include(<cuda/std/__atomic/scopes.h>)
#include <cuda/std/__atomic/order.h>
#include <cuda/std/__atomic/scopes.h>
#else
namespace cuda {
namespace std {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread = 10 };
enum class memory_order { relaxed, consume, acquire, release, acq_rel, seq_cst };
inline constexpr memory_order memory_order_relaxed = memory_order::relaxed;
inline constexpr memory_order memory_order_consume = memory_order::consume;
inline constexpr memory_order memory_order_acquire = memory_order::acquire;
inline constexpr memory_order memory_order_release = memory_order::release;
inline constexpr memory_order memory_order_acq_rel = memory_order::acq_rel;
inline constexpr memory_order memory_order_seq_cst = memory_order::seq_cst;
}  // namespace std
using std::thread_scope;
using std::thread_scope_system;
using std::thread_scope_device;
using std::thread_scope_block;
using std::thread_scope_thread;
using std::memory_order;
using std::memory_order_relaxed;
using std::memory_order_consume;
using std::memory_order_acquire;
using std::memory_order_release;
using std::memory_order_acq_rel;
using std::memory_order_seq_cst;
}  // namespace cuda
#endif

namespace emu EMU_HIDDEN {

// One turn of a loop that waits for other threads: those of the block run, and other blocks' OS threads.
inline void let_others_run() {
    if (worker && worker->in_kernel()) worker->yield();
    sched_yield();
}

}  // namespace emu
