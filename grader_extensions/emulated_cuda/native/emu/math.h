// Floating-point functions that CUDA has and C++ has not; the rest comes from <math.h>.  Fast intrinsics are computed
// precisely: the device would be less exact, never more.
#pragma once

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
inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
inline double norm3d(double a, double b, double c) { return ::sqrt(a * a + b * b + c * c); }
inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
inline float norm4df(float a, float b, float c, float d) { return sqrtf(a * a + b * b + c * c + d * d); }

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

// Round to nearest is what the host does.  fma is exact by contract, with or without the instruction.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __drcp_rn(double a) { return 1.0 / a; }
inline double __dsqrt_rn(double a) { return ::sqrt(a); }
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / ::sqrt(static_cast<double>(a))); }
