// The words that CUDA adds to C++, as what g++ understands.  What no macro can say (launches, __shared__) is
// rewritten by grader_extensions/emulated_cuda/emulation.py before the compiler sees it.
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
// EMU_TELL calls the sanitizer, where there is one.  It names places by the user's line, so what stands between the user's code and the
// device is inlined into that code, and what asks for its caller is not.  The device's own accesses are left unchecked.
#ifdef EMU_SANITIZE
#define EMU_TELL(...) ::emu::sanitizer::__VA_ARGS__
#define EMU_INLINE inline __attribute__((always_inline))
#define EMU_UNCHECKED inline __attribute__((no_sanitize("thread")))
#define EMU_OUTLINE EMU_UNCHECKED __attribute__((noinline))
#else
#define EMU_TELL(...) static_cast<void>(0)
#define EMU_INLINE inline
#define EMU_UNCHECKED inline
#define EMU_OUTLINE inline
#endif
// One %fs-relative load instead of a call; the few bytes fit in what the loader keeps for libraries opened later.
#define EMU_THREAD_LOCAL constinit thread_local __attribute__((tls_model("initial-exec"), visibility("hidden")))
