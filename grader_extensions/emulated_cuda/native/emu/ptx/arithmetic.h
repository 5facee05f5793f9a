// Registers of inline PTX as bit patterns, the values that instructions read from them, and rounding.
// The translator (grader_extensions/emulated_cuda/ptx_translation.py) writes calls of the functions whose names begin with emu_.
#pragma once

#include <cmath>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#include "../bits.h"
#include "../block.h"
#include "../short_float_bits.h"

namespace emu EMU_HIDDEN {
namespace ptx {

// Modifiers as grader_extensions/emulated_cuda/ptx_instructions.py numbers them.
inline constexpr unsigned Ftz = 1, Sat = 2, Relu = 4, NaN = 8, Rz = 16, Rm = 32, Rp = 64, SatFinite = 128, Rna = 256, IntegerRounding = 512;

// A 16-bit float, and a pair of them, the first in the low half.
template <class F>
struct ShortFloat {
    using Format = F;
    uint16_t bits;
};
template <class F>
struct ShortPair {
    using Format = F;
    uint16_t low, high;
};
using Half = ShortFloat<HalfFormat>;
using Bfloat = ShortFloat<BfloatFormat>;
using Half2 = ShortPair<HalfFormat>;
using Bfloat2 = ShortPair<BfloatFormat>;

template <class T>
inline constexpr bool is_short = false;
template <class F>
inline constexpr bool is_short<ShortFloat<F>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class F>
inline constexpr bool is_pair<ShortPair<F>> = true;

template <class Bits>
inline void emu_undefined(Bits& value) {
    uint64_t pattern = uint64_t{poison} << 32 | poison;
    memcpy(&value, &pattern, sizeof value);
}
inline void emu_undefined(bool& value) { value = false; }

// What an operand of the asm statement brings in.  A smaller integer is converted, as its constraint's type would be.
template <class Bits, class T>
inline Bits emu_in(T value) {
    if constexpr (sizeof(T) == sizeof(Bits)) {
        return __builtin_bit_cast(Bits, value);
    } else {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>, "the size of an asm operand does not fit its constraint");
        static_assert(sizeof(T) < sizeof(Bits), "the size of an asm operand does not fit its constraint");
        return static_cast<Bits>(value);
    }
}

template <class T, class Bits>
inline void emu_out(T& to, Bits bits) {
    static_assert(sizeof to == sizeof bits, "the size of an asm operand does not fit its constraint");
    memcpy(static_cast<void*>(&to), &bits, sizeof to);
}

// The low bytes of a register.
template <class T, class Bits>
inline T emu_read(Bits bits) {
    T value;
    memcpy(static_cast<void*>(&value), &bits, sizeof value);
    return value;
}

// A narrower value is extended by its sign, if it has one, or with zeros.
template <class Bits, class T>
inline Bits emu_write(T value) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<Bits>(value);
    } else {
        Bits bits = 0;
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
}

template <class T>
inline T flushed(T value) {
    return value != 0 && __builtin_fabs(static_cast<double>(value)) < static_cast<double>(__FLT_MIN__) ? __builtin_copysign(T{0}, value) : value;
}
template <unsigned flags>
inline float input(float value) { return (flags & Ftz) ? flushed(value) : value; }
template <unsigned flags>
inline double input(double value) { return value; }

inline float canonical_nan() { return bit_cast<float>(0x7fffffffu); }

// A sum in double whose last bit says whether it is exact (rounding to odd), so that a second rounding is right.  Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums", IEEE TC 2008.
inline double add_to_odd(double a, double b) {
    double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
    if (error == 0 || sum != sum || __builtin_isinf(sum)) return sum;
    uint64_t bits = bit_cast<uint64_t>(sum);
    if (!(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return bit_cast<double>(bits);
}

// A double as float, rounded as the flags say.
template <unsigned flags>
inline float to_float(double value) {
    float near = static_cast<float>(value);
    if constexpr ((flags & (Rz | Rm | Rp)) != 0) {
        double back = near;
        if (back == value || value != value) return near;
        bool up = (flags & Rp) || ((flags & Rz) && value < 0);
        if (up ? back < value : back > value) near = __builtin_nextafterf(near, up ? __builtin_inff() : -__builtin_inff());
    }
    return near;
}

// What an instruction on floats writes: saturated, flushed, with the NaN that the device makes.
template <unsigned flags>
inline float finished(float value) {
    if (flags & Sat) return value > 0 ? (value < 1 ? ((flags & Ftz) ? flushed(value) : value) : 1.0f) : 0.0f;
    if (value != value) return canonical_nan();
    if (flags & Relu) value = value > 0 ? value : 0.0f;
    return (flags & Ftz) ? flushed(value) : value;
}
template <unsigned flags>
inline double finished(double value) { return value; }

template <class F>
inline double wide(uint16_t bits) { return F::to_float(bits); }
// Rounds a value that is exact, or rounded to odd, once.
template <class F, unsigned flags>
inline uint16_t narrowed(double value) {
    constexpr Rounding how = (flags & Rz) ? Rounding::TowardZero : (flags & Rm) ? Rounding::Down : (flags & Rp) ? Rounding::Up : Rounding::Nearest;
    if (value != value) return 0x7fff;
    if (flags & Sat) value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
    if ((flags & Relu) && !(value > 0)) value = 0.0;
    return F::from_double(value, how);
}

// Applies an operation on doubles to every kind of short float.
template <unsigned flags, class F, class Function, class... Rest>
inline ShortFloat<F> by_double(Function function, ShortFloat<F> a, Rest... rest) {
    return {narrowed<F, flags>(function(wide<F>(a.bits), wide<F>(rest.bits)...))};
}
template <unsigned flags, class F, class Function, class... Rest>
inline ShortPair<F> by_double(Function function, ShortPair<F> a, Rest... rest) {
    return {narrowed<F, flags>(function(wide<F>(a.low), wide<F>(rest.low)...)), narrowed<F, flags>(function(wide<F>(a.high), wide<F>(rest.high)...))};
}
// Applies an operation on bits.
template <class F, class Function>
inline ShortFloat<F> by_bits(Function function, ShortFloat<F> a) { return {function(a.bits)}; }
template <class F, class Function>
inline ShortPair<F> by_bits(Function function, ShortPair<F> a) { return {function(a.low), function(a.high)}; }

// Arithmetic and comparisons of inline PTX (PTX ISA 8.7, 9.7.3 to 9.7.5).  Approximate functions are computed precisely: the device would be
// less exact (ex2.approx 2 ulp, tanh.approx 2^-11 relative, rcp, rsqrt, sqrt and lg2.approx a few ulp).
// Integer and bit instructions (9.7.1, 9.7.2, 9.7.8, 9.7.9) take no modifiers.
#define EMU_PTX_FUNCTION template <class T, unsigned> inline

template <class T>
inline constexpr unsigned bits_of = sizeof(T) * 8;
template <class T>
using Unsigned = std::make_unsigned_t<T>;
// Twice as wide, of the same sign.
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// The flag that add.cc and its like leave for the next addc.  It survives from one asm statement to the next, as on the device.
inline EMU_THREAD_LOCAL bool carry = false;

EMU_PTX_FUNCTION T emu_mul_hi(T a, T b) { return static_cast<T>(static_cast<Wide<T>>(a) * b >> bits_of<T>); }
EMU_PTX_FUNCTION Wide<T> emu_mul_wide(T a, T b) { return static_cast<Wide<T>>(a) * b; }
EMU_PTX_FUNCTION T emu_mad_lo(T a, T b, T c) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
}
EMU_PTX_FUNCTION T emu_mad_hi(T a, T b, T c) {
    return static_cast<T>(static_cast<Unsigned<T>>(emu_mul_hi<T, 0>(a, b)) + static_cast<Unsigned<T>>(c));
}
EMU_PTX_FUNCTION Wide<T> emu_mad_wide(T a, T b, Wide<T> c) {
    using Result = Unsigned<Wide<T>>;
    return static_cast<Wide<T>>(static_cast<Result>(static_cast<Wide<T>>(a) * b) + static_cast<Result>(c));
}

template <class T>
inline T add_with(T a, T b, bool in) {
    Unsigned<T> sum;
    bool first = __builtin_add_overflow(static_cast<Unsigned<T>>(a), static_cast<Unsigned<T>>(b), &sum);
    carry = __builtin_add_overflow(sum, static_cast<Unsigned<T>>(in), &sum) || first;
    return static_cast<T>(sum);
}
template <class T>
inline T subtract_with(T a, T b, bool in) {
    Unsigned<T> rest;
    bool first = __builtin_sub_overflow(static_cast<Unsigned<T>>(a), static_cast<Unsigned<T>>(b), &rest);
    carry = __builtin_sub_overflow(rest, static_cast<Unsigned<T>>(in), &rest) || first;
    return static_cast<T>(rest);
}
EMU_PTX_FUNCTION T emu_add_cc(T a, T b) { return add_with(a, b, false); }
EMU_PTX_FUNCTION T emu_addc(T a, T b) { return add_with(a, b, carry); }
EMU_PTX_FUNCTION T emu_sub_cc(T a, T b) { return subtract_with(a, b, false); }
EMU_PTX_FUNCTION T emu_subc(T a, T b) { return subtract_with(a, b, carry); }
EMU_PTX_FUNCTION T emu_mad_lo_cc(T a, T b, T c) { return add_with(emu_mad_lo<T, 0>(a, b, 0), c, false); }
EMU_PTX_FUNCTION T emu_madc_lo(T a, T b, T c) { return add_with(emu_mad_lo<T, 0>(a, b, 0), c, carry); }
EMU_PTX_FUNCTION T emu_mad_hi_cc(T a, T b, T c) { return add_with(emu_mul_hi<T, 0>(a, b), c, false); }
EMU_PTX_FUNCTION T emu_madc_hi(T a, T b, T c) { return add_with(emu_mul_hi<T, 0>(a, b), c, carry); }

// Division by zero is undefined in PTX; the device gives all ones, and for the remainder the dividend.
EMU_PTX_FUNCTION T emu_rem(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
}

EMU_PTX_FUNCTION T emu_bit_and(T a, T b) { return a & b; }
EMU_PTX_FUNCTION T emu_bit_or(T a, T b) { return a | b; }
EMU_PTX_FUNCTION T emu_bit_xor(T a, T b) { return a ^ b; }
EMU_PTX_FUNCTION T emu_bit_not(T a) {
    if constexpr (std::is_same_v<T, bool>) return !a;
    else return static_cast<T>(~a);
}
EMU_PTX_FUNCTION T emu_shl(T a, uint32_t by) { return by < bits_of<T> ? static_cast<T>(a << by) : T{0}; }
EMU_PTX_FUNCTION T emu_shr(T a, uint32_t by) { return static_cast<T>(by < bits_of<T> ? a >> by : a < 0 ? -1 : 0); }

EMU_PTX_FUNCTION T emu_shf_l_wrap(T a, T b, uint32_t by) { return __funnelshift_l(a, b, by); }
EMU_PTX_FUNCTION T emu_shf_r_wrap(T a, T b, uint32_t by) { return __funnelshift_r(a, b, by); }
EMU_PTX_FUNCTION T emu_shf_l_clamp(T a, T b, uint32_t by) { return by < 32 ? __funnelshift_l(a, b, by) : a; }
EMU_PTX_FUNCTION T emu_shf_r_clamp(T a, T b, uint32_t by) { return by < 32 ? __funnelshift_r(a, b, by) : b; }

// Bit i of the table is the result where a, b and c have the bits of i, a the highest.
EMU_PTX_FUNCTION T emu_lop3(T a, T b, T c, uint32_t table) {
    T result = 0;
    for (unsigned row = 0; row < 8; ++row)
        if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    return result;
}

EMU_PTX_FUNCTION T emu_bfe(T a, uint32_t position, uint32_t length) {
    constexpr unsigned width = bits_of<T>;
    position &= 0xff, length &= 0xff;
    bool sign = std::is_signed_v<T> && length != 0 && (static_cast<Unsigned<T>>(a) >> (position + length - 1 < width ? position + length - 1 : width - 1) & 1);
    Unsigned<T> field = position < width ? static_cast<Unsigned<T>>(a) >> position : 0;
    unsigned available = position < width ? width - position : 0, kept = length < available ? length : available;
    Unsigned<T> mask = kept < width ? (Unsigned<T>{1} << kept) - 1 : ~Unsigned<T>{0};
    return static_cast<T>(sign ? field | ~mask : field & mask);
}
EMU_PTX_FUNCTION T emu_bfi(T a, T b, uint32_t position, uint32_t length) {
    constexpr unsigned width = bits_of<T>;
    position &= 0xff, length &= 0xff;
    if (position >= width || length == 0) return b;
    T mask = (length < width ? (T{1} << length) - 1 : ~T{0}) << position;
    return (b & ~mask) | (a << position & mask);
}
EMU_PTX_FUNCTION uint32_t emu_bfind(T a) {
    auto bits = static_cast<uint64_t>(static_cast<Unsigned<T>>(a < 0 ? ~a : a));
    return bits == 0 ? 0xffffffffu : 63u - static_cast<unsigned>(__builtin_clzll(bits));
}
EMU_PTX_FUNCTION uint32_t emu_bfind_shiftamt(T a) {
    uint32_t found = emu_bfind<T, 0>(a);
    return found == 0xffffffffu ? found : bits_of<T> - 1 - found;
}
EMU_PTX_FUNCTION uint32_t emu_popc(T a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
EMU_PTX_FUNCTION uint32_t emu_clz(T a) { return a == 0 ? bits_of<T> : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - bits_of<T>); }
EMU_PTX_FUNCTION T emu_brev(T a) {
    if constexpr (sizeof(T) == 8) return __brevll(a);
    else return __brev(a);
}
EMU_PTX_FUNCTION T emu_selp(T a, T b, bool first) { return first ? a : b; }

template <bool signed_a, bool signed_b>
inline uint32_t emu_dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int at = 0; at < 32; at += 8) {
        int32_t x = signed_a ? static_cast<int8_t>(a >> at) : static_cast<uint8_t>(a >> at);
        int32_t y = signed_b ? static_cast<int8_t>(b >> at) : static_cast<uint8_t>(b >> at);
        c += static_cast<uint32_t>(x * y);
    }
    return c;
}
template <bool signed_a, bool signed_b, bool high>
inline uint32_t emu_dp2a(uint32_t a, uint32_t b, uint32_t c) {
    for (int at = 0; at < 2; ++at) {
        uint32_t half = a >> 16 * at, byte = b >> (8 * at + (high ? 16 : 0));
        int32_t x = signed_a ? static_cast<int16_t>(half) : static_cast<uint16_t>(half);
        int32_t y = signed_b ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
        c += static_cast<uint32_t>(x * y);
    }
    return c;
}

// The selectors of prmt's modes, for each value of the low two bits of c: f4e, b4e, rc8, ecl, ecr, rc16.
inline constexpr uint16_t permute_modes[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123}, {0x0000, 0x1111, 0x2222, 0x3333},
                                                 {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
template <unsigned mode>
inline uint32_t emu_prmt(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t selector = c, result = 0;
    if constexpr (mode > 0) selector = permute_modes[mode - 1][c & 3];
    uint64_t bytes = uint64_t{b} << 32 | a;
    for (int at = 0; at < 4; ++at) {
        uint32_t one = selector >> 4 * at & 15, byte = static_cast<uint32_t>(bytes >> (one & 7) * 8) & 0xff;
        if (one & 8) byte = byte & 0x80 ? 0xff : 0;  // the byte's sign, eight times
        result |= byte << 8 * at;
    }
    return result;
}

template <class T>
inline constexpr bool is_short_kind = is_short<T> || is_pair<T>;

template <class T>
inline Unsigned<T> as_unsigned(T value) { return static_cast<Unsigned<T>>(value); }

// An operation on floats: `exact` on doubles is exact, or rounded to odd; `near` rounds to the nearest.
template <unsigned flags, class T, class Exact, class Near, class... Rest>
inline T by_rounding(Exact exact, Near near, T a, Rest... rest) {
    if constexpr (is_short_kind<T>) return by_double<flags>(exact, a, rest...);
    else if constexpr (std::is_same_v<T, double>) return near(a, rest...);
    else if constexpr ((flags & (Rz | Rm | Rp)) != 0)
        return finished<flags>(to_float<flags>(exact(static_cast<double>(input<flags>(a)), static_cast<double>(input<flags>(rest))...)));
    else return finished<flags>(near(input<flags>(a), input<flags>(rest)...));
}

template <class T, unsigned flags>
inline T emu_add(T a, T b) {
    if constexpr (!std::is_integral_v<T>) {
        return by_rounding<flags>([](double x, double y) { return add_to_odd(x, y); }, [](auto x, auto y) { return x + y; }, a, b);
    } else {
        T sum;
        bool overflows = __builtin_add_overflow(a, b, &sum);
        return (flags & Sat) && overflows ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : sum;
    }
}

template <class T, unsigned flags>
inline T emu_sub(T a, T b) {
    if constexpr (!std::is_integral_v<T>) {
        return by_rounding<flags>([](double x, double y) { return add_to_odd(x, -y); }, [](auto x, auto y) { return x - y; }, a, b);
    } else {
        T rest;
        bool overflows = __builtin_sub_overflow(a, b, &rest);
        return (flags & Sat) && overflows ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : rest;
    }
}

template <class T, unsigned flags>
inline T emu_mul(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return by_rounding<flags>([](double x, double y) { return x * y; }, [](auto x, auto y) { return x * y; }, a, b);
}

template <class T, unsigned flags>
inline T emu_fma(T a, T b, T c) {
    return by_rounding<flags>([](double x, double y, double z) { return add_to_odd(x * y, z); },
                              [](auto x, auto y, auto z) { return std::fma(x, y, z); }, a, b, c);
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
EMU_PTX_FUNCTION T emu_copysign(T a, T b) { return __builtin_copysign(b, a); }

// A function of one argument, for float, double and the short floats.
template <unsigned flags, class T, class Function>
inline T by_function(Function function, T a) {
    if constexpr (is_short_kind<T>) return by_double<flags>(function, a);
    else if constexpr (std::is_same_v<T, double>) return function(a);
    else return finished<flags>(static_cast<float>(function(static_cast<double>(input<flags>(a)))));
}
#define EMU_PTX_UNARY(name, expression)                                \
    template <class T, unsigned flags>                                    \
    inline T emu_##name(T a) {                                            \
        return by_function<flags>([](double x) { return expression; }, a); \
    }
EMU_PTX_UNARY(rcp, 1.0 / x)
EMU_PTX_UNARY(square_root, ::sqrt(x))
EMU_PTX_UNARY(rsqrt, 1.0 / ::sqrt(x))
EMU_PTX_UNARY(sine, ::sin(x))
EMU_PTX_UNARY(cosine, ::cos(x))
EMU_PTX_UNARY(lg2, ::log2(x))
EMU_PTX_UNARY(ex2, ::exp2(x))
EMU_PTX_UNARY(hyperbolic_tangent, ::tanh(x))
#undef EMU_PTX_UNARY

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
#undef EMU_PTX_FUNCTION

}  // namespace ptx
}  // namespace emu
