// The words that CUDA adds to C++, as what g++ understands.  What no macro can say (launches, __shared__) is
// rewritten by sandbox/compilers/emulation.py before the compiler sees it.
#pragma once

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
// Written by the translator for `__noinline__`, which cannot be a macro: libstdc++ says __attribute__((__noinline__)).
#define EMU_NOINLINE __attribute__((noinline))
#define __nv_pure__
#define __CUDA_EMULATED__ 1
#define CUDART_VERSION 12090
// Thrust, from the toolkit, works on the host.
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#define CUDA_VERSION 12090
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9

#define EMU_HIDDEN __attribute__((visibility("hidden")))
// One %fs-relative load instead of a call; the few bytes fit in what the loader keeps for libraries opened later.
#define EMU_THREAD_LOCAL constinit thread_local __attribute__((tls_model("initial-exec"), visibility("hidden")))
