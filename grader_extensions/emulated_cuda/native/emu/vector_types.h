// The built-in vector types (float4, int2, dim3 ...) with CUDA's alignments, and their make_ functions.
#pragma once

#include "qualifiers.h"

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
