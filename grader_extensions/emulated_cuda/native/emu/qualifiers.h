// What CUDA adds to C++, as g++ understands it: words, and the built-in vector types with CUDA's alignments.  What no macro can say (launches,
// __shared__) is rewritten by grader_extensions/emulated_cuda/emulation.py before the compiler sees it.
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
#define EMU_THREAD_LOCAL __constinit thread_local __attribute__((tls_model("initial-exec"), visibility("hidden")))

#define EMU_VECTOR(T, name, a2, a4)                                                                             \
    struct name##1 { T x; };                                                                                    \
    struct alignas(a2) name##2 { T x, y; };                                                                     \
    struct name##3 { T x, y, z; };                                                                              \
    struct alignas(a4) name##4 { T x, y, z, w; };                                                               \
    constexpr name##1 make_##name##1(T x) { return {x}; }                                                       \
    constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                               \
    constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                       \
    constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

EMU_VECTOR(signed char, char, 2, 4)
EMU_VECTOR(unsigned char, uchar, 2, 4)
EMU_VECTOR(short, short, 4, 8)
EMU_VECTOR(unsigned short, ushort, 4, 8)
EMU_VECTOR(int, int, 8, 16)
EMU_VECTOR(unsigned int, uint, 8, 16)
EMU_VECTOR(long, long, 16, 16)
EMU_VECTOR(unsigned long, ulong, 16, 16)
EMU_VECTOR(long long, longlong, 16, 16)
EMU_VECTOR(unsigned long long, ulonglong, 16, 16)
EMU_VECTOR(float, float, 8, 16)
EMU_VECTOR(double, double, 16, 16)
#undef EMU_VECTOR

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
