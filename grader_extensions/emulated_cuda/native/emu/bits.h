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
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) { return shift < 32 ? __funnelshift_l(lo, hi, shift) : lo; }
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) { return shift < 32 ? __funnelshift_r(lo, hi, shift) : hi; }
// The bit that is the n-th set one from `base` on, upwards or downwards; all ones where there is none.
inline unsigned __fns(unsigned mask, unsigned base, int n) {
    int step = n < 0 ? -1 : 1, left = n < 0 ? -n : n;
    if (n == 0) return base < 32 && (mask >> base & 1) ? base : ~0u;
    for (unsigned at = base; at < 32; at += static_cast<unsigned>(step))
        if ((mask >> at & 1) && --left == 0) return at;
    return ~0u;
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
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
inline unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) + b + 1) >> 1); }
inline int __hadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b + 1) >> 1); }
// The sum of products of a's parts and b's bytes, those from a first one on.
#define EMU_DOT(name, bits, first, sign, T, Parts, Bytes)                                                                     \
    inline T name(T a, T b, T c) {                                                                                            \
        auto sum = static_cast<unsigned>(c);                                                                                  \
        for (int i = 0; i < 32 / bits; ++i)                                                                                   \
            sum += static_cast<unsigned>(static_cast<sign##bits##_t>(a >> bits * i) * static_cast<sign##8_t>(b >> 8 * (first + i))); \
        return static_cast<T>(sum);                                                                                           \
    }                                                                                                                         \
    inline T name(Parts a, Bytes b, T c) { return name(__builtin_bit_cast(T, a), __builtin_bit_cast(T, b), c); }
EMU_DOT(__dp4a, 8, 0, int, int, char4, char4)
EMU_DOT(__dp4a, 8, 0, uint, unsigned, uchar4, uchar4)
EMU_DOT(__dp2a_lo, 16, 0, int, int, short2, char4)
EMU_DOT(__dp2a_lo, 16, 0, uint, unsigned, ushort2, uchar4)
EMU_DOT(__dp2a_hi, 16, 2, int, int, short2, char4)
EMU_DOT(__dp2a_hi, 16, 2, uint, unsigned, ushort2, uchar4)
#undef EMU_DOT

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
