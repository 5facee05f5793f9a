// Bit-level and integer intrinsics, reinterpretations and rounding conversions.
#pragma once

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "qualifiers.h"

namespace emu EMU_HIDDEN {

template <class To, class From>
inline To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From));
#ifdef EMU_SANITIZE
    // So that the compiler does not make one instruction of this, and of the arithmetic of another line that made the value.
    if constexpr (static_cast<From>(0.5) != 0) asm("" : "+x"(from));
#endif
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// CUDA's conversions saturate and send NaN to zero; C++ leaves both undefined.
template <class To, class From>
inline To saturate_to(From value, To low, To high) {
    if (value != value) return 0;
    if (value <= static_cast<From>(low)) return low;
    if (value >= static_cast<From>(high)) return high;
    return static_cast<To>(value);
}

}  // namespace emu

inline int __float_as_int(float x) { return emu::bit_cast<int>(x); }
inline float __int_as_float(int x) { return emu::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return emu::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emu::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return emu::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return emu::bit_cast<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double(static_cast<long long>(static_cast<uint64_t>(static_cast<uint32_t>(hi)) << 32 | static_cast<uint32_t>(lo)));
}

inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(bytes >> ((selector >> 4 * i & 7) * 8) & 0xff) << 8 * i;
    return result;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) >> (shift & 31));
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline unsigned __sad(int a, int b, unsigned c) { return static_cast<unsigned>(a > b ? a - b : b - a) + c; }
inline int __hadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b + 1) >> 1); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
    return c;
}

#define EMU_TO_INTEGER(from, From, to, To, low, high, nearest, down, up, zero)                                     \
    inline To __##from##2##to##_rn(From x) { return emu::saturate_to<To>(nearest(x), low, high); }                 \
    inline To __##from##2##to##_rd(From x) { return emu::saturate_to<To>(down(x), low, high); }                    \
    inline To __##from##2##to##_ru(From x) { return emu::saturate_to<To>(up(x), low, high); }                      \
    inline To __##from##2##to##_rz(From x) { return emu::saturate_to<To>(zero(x), low, high); }
EMU_TO_INTEGER(float, float, int, int, INT_MIN, INT_MAX, rintf, floorf, ceilf, truncf)
EMU_TO_INTEGER(float, float, uint, unsigned, 0u, UINT_MAX, rintf, floorf, ceilf, truncf)
EMU_TO_INTEGER(float, float, ll, long long, LLONG_MIN, LLONG_MAX, rintf, floorf, ceilf, truncf)
EMU_TO_INTEGER(float, float, ull, unsigned long long, 0ull, ULLONG_MAX, rintf, floorf, ceilf, truncf)
EMU_TO_INTEGER(double, double, int, int, INT_MIN, INT_MAX, rint, floor, ceil, trunc)
EMU_TO_INTEGER(double, double, uint, unsigned, 0u, UINT_MAX, rint, floor, ceil, trunc)
EMU_TO_INTEGER(double, double, ll, long long, LLONG_MIN, LLONG_MAX, rint, floor, ceil, trunc)
EMU_TO_INTEGER(double, double, ull, unsigned long long, 0ull, ULLONG_MAX, rint, floor, ceil, trunc)
#undef EMU_TO_INTEGER

inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __double2float_rz(double x) {
    auto nearest = static_cast<float>(x);
    return fabs(static_cast<double>(nearest)) > fabs(x) ? nextafterf(nearest, 0.0f) : nearest;
}
