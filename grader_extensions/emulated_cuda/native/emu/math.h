// Floating-point functions that CUDA has and C++ has not; the rest comes from <math.h>.  Fast intrinsics are computed
// precisely: the device would be less exact, never more.
#pragma once

#include <cmath>
#include <initializer_list>
#include <math.h>
#include <stdlib.h>

#include "bits.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

#define EMU_MIN_MAX(A, B, R)                                                  \
    constexpr R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    constexpr R max(A a, B b) { return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }
EMU_MIN_MAX(int, int, int)
EMU_MIN_MAX(unsigned, unsigned, unsigned)
EMU_MIN_MAX(int, unsigned, unsigned)
EMU_MIN_MAX(unsigned, int, unsigned)
EMU_MIN_MAX(long, long, long)
EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMU_MIN_MAX(long, unsigned long, unsigned long)
EMU_MIN_MAX(unsigned long, long, unsigned long)
EMU_MIN_MAX(long long, long long, long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef EMU_MIN_MAX
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

#define EMU_BOTH(name, expression)                        \
    inline float name##f(float x) {                       \
        using Real = float;                               \
        return static_cast<float>(expression);            \
    }                                                     \
    inline double name(double x) {                        \
        using Real = double;                              \
        return static_cast<double>(expression);           \
    }
EMU_BOTH(rsqrt, Real(1) / std::sqrt(x))
EMU_BOTH(rcbrt, Real(1) / std::cbrt(x))
EMU_BOTH(sinpi, ::sin(static_cast<double>(x) * M_PI))
EMU_BOTH(cospi, ::cos(static_cast<double>(x) * M_PI))
EMU_BOTH(normcdf, 0.5 * ::erfc(-static_cast<double>(x) * 0.70710678118654752440))
EMU_BOTH(erfcx, ::exp(static_cast<double>(x) * x) * ::erfc(static_cast<double>(x)))
#undef EMU_BOTH

inline double normcdfinv(double p) {
    if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : NAN;
    double low = -40, high = 40;  // bisection: short, monotone, and right to the last bits
    for (int step = 0; step < 200 && low < high; ++step) {
        double middle = (low + high) / 2;
        (normcdf(middle) < p ? low : high) = middle;
    }
    return (low + high) / 2;
}
inline float normcdfinvf(float p) { return static_cast<float>(normcdfinv(p)); }
inline double erfinv(double x) { return normcdfinv((x + 1) / 2) * 0.70710678118654752440; }
inline float erfinvf(float x) { return static_cast<float>(erfinv(x)); }
inline double erfcinv(double x) { return -normcdfinv(x / 2) * 0.70710678118654752440; }
inline float erfcinvf(float x) { return static_cast<float>(erfcinv(x)); }

inline float fdividef(float a, float b) { return a / b; }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
inline double rhypot(double a, double b) { return 1.0 / hypot(a, b); }
namespace emu EMU_HIDDEN {

template <class T>
inline long double length(int count, const T* x) {
    long double sum = 0;  // no square leaves its range
    for (int i = 0; i < count; ++i) sum += static_cast<long double>(x[i]) * x[i];
    return std::sqrt(sum);
}

// Its power series: all terms have one sign.
template <int order>
inline long double bessel(double x) {
    long double term = order ? x / 2.0l : 1, sum = term;
    for (long double k = 1; std::fabs(term) > std::fabs(sum) * 0x1p-64l; ++k) sum += term *= x * (x / 4.0l) / (k * (k + order));
    return sum;
}

}  // namespace emu

#define EMU_OF_REALS(T, f)                                                                                 \
    inline T norm##f(int count, const T* x) { return static_cast<T>(emu::length(count, x)); }              \
    inline T rnorm##f(int count, const T* x) { return static_cast<T>(1 / emu::length(count, x)); }         \
    inline T norm3d##f(T a, T b, T c) { return norm##f(3, std::initializer_list<T>{a, b, c}.begin()); }    \
    inline T rnorm3d##f(T a, T b, T c) { return rnorm##f(3, std::initializer_list<T>{a, b, c}.begin()); }  \
    inline T norm4d##f(T a, T b, T c, T d) { return norm##f(4, std::initializer_list<T>{a, b, c, d}.begin()); } \
    inline T rnorm4d##f(T a, T b, T c, T d) { return rnorm##f(4, std::initializer_list<T>{a, b, c, d}.begin()); } \
    inline T cyl_bessel_i0##f(T x) { return static_cast<T>(emu::bessel<0>(x)); }                           \
    inline T cyl_bessel_i1##f(T x) { return static_cast<T>(emu::bessel<1>(x)); }
EMU_OF_REALS(float, f)
EMU_OF_REALS(double, )
#undef EMU_OF_REALS

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return static_cast<float>(::pow(10.0, x)); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

namespace emu EMU_HIDDEN {

// The bits of the host's control register that say how it rounds.
inline constexpr unsigned downward = 0x2000, upward = 0x4000, toward_zero = 0x6000;

template <class T>
EMU_UNCHECKED void hold(T& value) { asm volatile("" : "+m"(value)); }

// An operation as the host rounds it then. It stays between the two instructions, as the values that it takes and gives are held there.
template <unsigned direction, class Operation, class... T>
EMU_UNCHECKED auto rounded(Operation operation, T... values) {
    unsigned usual = __builtin_ia32_stmxcsr(), directed = (usual & ~toward_zero) | direction;
    asm volatile("ldmxcsr %0" : : "m"(directed));
    (hold(values), ...);
    auto result = operation(values...);
    hold(result);
    asm volatile("ldmxcsr %0" : : "m"(usual));
    return result;
}

}  // namespace emu

// Round to nearest is what the host does.  fma is exact by contract, with or without the instruction.
#define EMU_ROUNDED(name, T, parameters, arguments, expression)                                                                   \
    inline T name##_rn parameters { return expression; }                                                                          \
    template <class = void>                                                                                                       \
    inline T name##_rd parameters { return emu::rounded<emu::downward>([] parameters -> T { return expression; }, EMU_LIST arguments); } \
    template <class = void>                                                                                                       \
    inline T name##_ru parameters { return emu::rounded<emu::upward>([] parameters -> T { return expression; }, EMU_LIST arguments); } \
    template <class = void>                                                                                                       \
    inline T name##_rz parameters { return emu::rounded<emu::toward_zero>([] parameters -> T { return expression; }, EMU_LIST arguments); }
#define EMU_LIST(...) __VA_ARGS__
#define EMU_OF_REALS(letter, fused, T)                                                    \
    EMU_ROUNDED(__##letter##add, T, (T a, T b), (a, b), a + b)                          \
    EMU_ROUNDED(__##letter##sub, T, (T a, T b), (a, b), a - b)                          \
    EMU_ROUNDED(__##letter##mul, T, (T a, T b), (a, b), a * b)                          \
    EMU_ROUNDED(__##letter##div, T, (T a, T b), (a, b), a / b)                          \
    EMU_ROUNDED(__##letter##rcp, T, (T a), (a), 1 / a)                                  \
    EMU_ROUNDED(__##letter##sqrt, T, (T a), (a), std::sqrt(a))                          \
    EMU_ROUNDED(fused, T, (T a, T b, T c), (a, b, c), std::fma(a, b, c))
EMU_OF_REALS(f, __fmaf, float)
EMU_OF_REALS(d, __fma, double)
EMU_ROUNDED(__fmaf_ieee, float, (float a, float b, float c), (a, b, c), fmaf(a, b, c))
EMU_ROUNDED(__double2float, float, (double a), (a), static_cast<float>(a))
#define EMU_CONVERTED(from, From, to) EMU_ROUNDED(__##from##2##to, to, (From a), (a), static_cast<to>(a))
EMU_CONVERTED(int, int, float)
EMU_CONVERTED(uint, unsigned, float)
EMU_CONVERTED(ll, long long, float)
EMU_CONVERTED(ull, unsigned long long, float)
EMU_CONVERTED(ll, long long, double)
EMU_CONVERTED(ull, unsigned long long, double)
#undef EMU_CONVERTED
#undef EMU_OF_REALS
#undef EMU_LIST
#undef EMU_ROUNDED
inline double __int2double_rn(int a) { return a; }
inline double __uint2double_rn(unsigned a) { return a; }
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / ::sqrt(static_cast<double>(a))); }
