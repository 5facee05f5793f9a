// Arithmetic and comparisons of inline PTX (PTX ISA 8.7, 9.7.3 to 9.7.5).  Approximate functions are computed precisely: the device would be
// less exact (ex2.approx 2 ulp, tanh.approx 2^-11 relative, rcp, rsqrt, sqrt and lg2.approx a few ulp).
#pragma once

#include <math.h>

#include "integer.h"

namespace emu EMU_HIDDEN {
namespace ptx {

template <class T>
inline constexpr bool is_short_kind = is_short<T> || is_pair<T>;

template <class T>
inline Unsigned<T> as_unsigned(T value) {
    return static_cast<Unsigned<T>>(value);
}

template <class T, unsigned flags>
inline T emu_add(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        a = input<flags>(a), b = input<flags>(b);
        if constexpr (flags & (Rz | Rm | Rp)) return finished<flags>(to_float<flags>(add_to_odd(a, b)));
        else return finished<flags>(a + b);
    } else if constexpr (std::is_integral_v<T>) {
        if constexpr ((flags & Sat) != 0) {
            T sum;
            return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : sum;
        }
        return static_cast<T>(as_unsigned(a) + as_unsigned(b));
    } else if constexpr (is_short_kind<T>) {
        return by_double<flags>([](double x, double y) { return add_to_odd(x, y); }, a, b);
    } else {
        return a + b;
    }
}

template <class T, unsigned flags>
inline T emu_sub(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        return emu_add<float, flags>(a, -b);
    } else if constexpr (std::is_integral_v<T>) {
        if constexpr ((flags & Sat) != 0) {
            T rest;
            return __builtin_sub_overflow(a, b, &rest) ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : rest;
        }
        return static_cast<T>(as_unsigned(a) - as_unsigned(b));
    } else if constexpr (is_short_kind<T>) {
        return by_double<flags>([](double x, double y) { return add_to_odd(x, -y); }, a, b);
    } else {
        return a - b;
    }
}

template <class T, unsigned flags>
inline T emu_mul(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        a = input<flags>(a), b = input<flags>(b);
        if constexpr (flags & (Rz | Rm | Rp)) return finished<flags>(to_float<flags>(static_cast<double>(a) * b));
        else return finished<flags>(a * b);
    } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else if constexpr (is_short_kind<T>) {
        return by_double<flags>([](double x, double y) { return x * y; }, a, b);
    } else {
        return a * b;
    }
}

template <class T, unsigned flags>
inline T emu_fma(T a, T b, T c) {
    if constexpr (std::is_same_v<T, float>) {
        a = input<flags>(a), b = input<flags>(b), c = input<flags>(c);
        if constexpr (flags & (Rz | Rm | Rp)) return finished<flags>(to_float<flags>(add_to_odd(static_cast<double>(a) * b, c)));
        else return finished<flags>(fmaf(a, b, c));
    } else if constexpr (is_short_kind<T>) {
        return by_double<flags>([](double x, double y, double z) { return add_to_odd(x * y, z); }, a, b, c);
    } else {
        return fma(a, b, c);
    }
}

template <class T, unsigned flags>
inline T emu_divide(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        if (b == 0) return static_cast<T>(-1);
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - as_unsigned(a));
        return static_cast<T>(a / b);
    } else {
        return finished<flags>(input<flags>(a) / input<flags>(b));
    }
}

template <class T, unsigned flags>
inline T emu_absolute(T a) {
    if constexpr (std::is_integral_v<T>) return a < 0 ? static_cast<T>(0 - as_unsigned(a)) : a;
    else if constexpr (is_short_kind<T>) return by_bits([](uint16_t bits) { return static_cast<uint16_t>(bits & 0x7fff); }, a);
    else return std::is_same_v<T, float> ? static_cast<T>(input<flags>(static_cast<float>(fabs(a)))) : fabs(a);
}
template <class T, unsigned flags>
inline T emu_neg(T a) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(0 - as_unsigned(a));
    else if constexpr (is_short_kind<T>) return by_bits([](uint16_t bits) { return static_cast<uint16_t>(bits ^ 0x8000); }, a);
    else return -input<flags>(a);
}

// The smaller one; a NaN only where both are, or where the modifier wants it; -0 is less than +0.
template <unsigned flags, class Real>
inline Real least(Real a, Real b) {
    if (a != a || b != b) {
        if ((flags & NaN) || (a != a && b != b)) return static_cast<Real>(__builtin_nan(""));
        return a != a ? b : a;
    }
    if (a == b) return __builtin_signbit(a) ? a : b;
    return a < b ? a : b;
}
template <class T, unsigned flags>
inline T emu_minimum(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a < b ? a : b;
    else if constexpr (is_short_kind<T>) return by_double<0>([](double x, double y) { return least<flags>(x, y); }, a, b);
    else return finished<flags>(least<flags>(input<flags>(a), input<flags>(b)));
}
template <class T, unsigned flags>
inline T emu_maximum(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a > b ? a : b;
    else if constexpr (is_short_kind<T>) return by_double<0>([](double x, double y) { return -least<flags>(-x, -y); }, a, b);
    else return finished<flags>(-least<flags>(-input<flags>(a), -input<flags>(b)));
}
// The sign of a, the rest of b.
template <class T, unsigned>
inline T emu_copysign(T a, T b) {
    return __builtin_copysign(b, a);
}

// A function of one argument, for float, double and the short floats.
template <unsigned flags, class T, class Function>
inline T by_function(Function function, T a) {
    if constexpr (is_short_kind<T>) return by_double<flags>(function, a);
    else if constexpr (std::is_same_v<T, double>) return function(a);
    else return finished<flags>(static_cast<float>(function(static_cast<double>(input<flags>(a)))));
}
#define EMU_PTX_FUNCTION(name, expression)                                \
    template <class T, unsigned flags>                                    \
    inline T emu_##name(T a) {                                            \
        return by_function<flags>([](double x) { return expression; }, a); \
    }
EMU_PTX_FUNCTION(rcp, 1.0 / x)
EMU_PTX_FUNCTION(square_root, ::sqrt(x))
EMU_PTX_FUNCTION(rsqrt, 1.0 / ::sqrt(x))
EMU_PTX_FUNCTION(sine, ::sin(x))
EMU_PTX_FUNCTION(cosine, ::cos(x))
EMU_PTX_FUNCTION(lg2, ::log2(x))
EMU_PTX_FUNCTION(ex2, ::exp2(x))
EMU_PTX_FUNCTION(hyperbolic_tangent, ::tanh(x))
#undef EMU_PTX_FUNCTION

template <unsigned flags, class T>
inline auto comparable(T value) {
    if constexpr (is_short<T>) return wide<typename T::Format>(value.bits);
    else if constexpr (std::is_same_v<T, float>) return input<flags>(value);
    else return value;
}
#define EMU_PTX_COMPARISON(name, expression)                                  \
    template <class T, unsigned flags>                                        \
    inline bool emu_##name(T first, T second) {                               \
        auto a = comparable<flags>(first), b = comparable<flags>(second);     \
        return expression;                                                    \
    }
EMU_PTX_COMPARISON(eq, a == b)
EMU_PTX_COMPARISON(ne, (a < b) || (a > b))
EMU_PTX_COMPARISON(lt, a < b)
EMU_PTX_COMPARISON(le, a <= b)
EMU_PTX_COMPARISON(gt, a > b)
EMU_PTX_COMPARISON(ge, a >= b)
EMU_PTX_COMPARISON(equ, !((a < b) || (a > b)))
EMU_PTX_COMPARISON(neu, !(a == b))
EMU_PTX_COMPARISON(ltu, !(a >= b))
EMU_PTX_COMPARISON(leu, !(a > b))
EMU_PTX_COMPARISON(gtu, !(a <= b))
EMU_PTX_COMPARISON(geu, !(a < b))
EMU_PTX_COMPARISON(num, a == a && b == b)
EMU_PTX_COMPARISON(nan, a != a || b != b)
#undef EMU_PTX_COMPARISON

template <class T>
inline bool emu_is_finite(T a) { return __builtin_isfinite(a); }
template <class T>
inline bool emu_is_infinite(T a) { return __builtin_isinf(a); }
template <class T>
inline bool emu_is_number(T a) { return a == a; }
template <class T>
inline bool emu_is_notanumber(T a) { return a != a; }
template <class T>
inline bool emu_is_normal(T a) { return __builtin_isnormal(a); }
template <class T>
inline bool emu_is_subnormal(T a) { return a != 0 && __builtin_isfinite(a) && !__builtin_isnormal(a); }

}  // namespace ptx
}  // namespace emu
