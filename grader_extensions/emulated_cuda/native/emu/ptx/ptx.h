// What the translated asm statements of a file call.  Included where there are any.
// The translator (grader_extensions/emulated_cuda/ptx_translation.py) writes calls of the functions whose names begin with emu_.
#pragma once

#include <cmath>
#include <limits>

#include "../atomics.h"
#include "../copy_queue.h"
#include "../device.h"
#include "../intrinsics.h"
#include "../tensor/formats.h"
#include "../warp_registers.h"

// Registers of inline PTX as bit patterns, the values that instructions read from them, and rounding.
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

// A wider number as float, rounded as the flags say.
template <unsigned flags, class Wider>
inline float to_float(Wider value) {
    float near = static_cast<float>(value);
    if constexpr ((flags & (Rz | Rm | Rp)) != 0) {
        Wider back = near;
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

// Applies an operation to the bits of every kind of short float, or to their values as doubles.
template <class F, class Function, class... Rest>
inline ShortFloat<F> by_bits(Function function, ShortFloat<F> a, Rest... rest) { return {function(a.bits, rest.bits...)}; }
template <class F, class Function, class... Rest>
inline ShortPair<F> by_bits(Function function, ShortPair<F> a, Rest... rest) {
    return {function(a.low, rest.low...), function(a.high, rest.high...)};
}
template <unsigned flags, class T, class Function, class... Rest>
inline T by_double(Function function, T a, Rest... rest) {
    using F = typename T::Format;
    return by_bits([=](auto... bits) { return narrowed<F, flags>(function(wide<F>(bits)...)); }, a, rest...);
}

// Arithmetic and comparisons of inline PTX (PTX ISA 8.7, 9.7.3 to 9.7.5).  Approximate functions are computed precisely: the device would be
// less exact (ex2.approx 2 ulp, tanh.approx 2^-11 relative, rcp, rsqrt, sqrt and lg2.approx a few ulp).
#define EMU_PTX_FUNCTION template <class T, unsigned flags = 0> inline

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
    return static_cast<T>(static_cast<Unsigned<T>>(emu_mul_hi<T>(a, b)) + static_cast<Unsigned<T>>(c));
}
EMU_PTX_FUNCTION Wide<T> emu_mad_wide(T a, T b, Wide<T> c) {
    using Result = Unsigned<Wide<T>>;
    return static_cast<Wide<T>>(static_cast<Result>(static_cast<Wide<T>>(a) * b) + static_cast<Result>(c));
}

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
EMU_PTX_FUNCTION T emu_shf_l_clamp(T a, T b, uint32_t by) { return __funnelshift_lc(a, b, by); }
EMU_PTX_FUNCTION T emu_shf_r_clamp(T a, T b, uint32_t by) { return __funnelshift_rc(a, b, by); }

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
    uint32_t found = emu_bfind<T>(a);
    return found == 0xffffffffu ? found : bits_of<T> - 1 - found;
}
EMU_PTX_FUNCTION uint32_t emu_popc(T a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
EMU_PTX_FUNCTION uint32_t emu_clz(T a) { return a == 0 ? bits_of<T> : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - bits_of<T>); }
EMU_PTX_FUNCTION T emu_brev(T a) {
    if constexpr (sizeof(T) == 8) return __brevll(a);
    else return __brev(a);
}
EMU_PTX_FUNCTION T emu_selp(T a, T b, bool first) { return first ? a : b; }

// Field `at` of a register's fields of `bits` bits.
template <bool is_signed, int bits>
inline int32_t field(uint32_t word, int at) {
    uint32_t top = word << (32 - bits * (at + 1));
    return is_signed ? static_cast<int32_t>(top) >> (32 - bits) : static_cast<int32_t>(top >> (32 - bits));
}
template <bool signed_a, bool signed_b>
inline uint32_t emu_dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int at = 0; at < 4; ++at) c += static_cast<uint32_t>(field<signed_a, 8>(a, at) * field<signed_b, 8>(b, at));
    return c;
}
template <bool signed_a, bool signed_b, bool high>
inline uint32_t emu_dp2a(uint32_t a, uint32_t b, uint32_t c) {
    for (int at = 0; at < 2; ++at) c += static_cast<uint32_t>(field<signed_a, 16>(a, at) * field<signed_b, 8>(b, at + 2 * high));
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

// The operator is `+` or `-`. With a carry there is no saturation.
#define EMU_PTX_SUM(name, sign)                                                                                          \
    template <class T>                                                                                                   \
    inline T name##_with(T a, T b, bool carried) {                                                                       \
        Unsigned<T> result;                                                                                              \
        bool first = __builtin_##name##_overflow(as_unsigned(a), as_unsigned(b), &result);                               \
        carry = __builtin_##name##_overflow(result, Unsigned<T>{carried}, &result) || first;                             \
        return static_cast<T>(result);                                                                                   \
    }                                                                                                                    \
    EMU_PTX_FUNCTION T emu_##name##_cc(T a, T b) { return name##_with(a, b, false); }                                    \
    EMU_PTX_FUNCTION T emu_##name##c(T a, T b) { return name##_with(a, b, carry); }                                      \
    EMU_PTX_FUNCTION T emu_##name(T a, T b) {                                                                            \
        if constexpr (!std::is_integral_v<T>) {                                                                          \
            auto exact = [](double x, double y) { return add_to_odd(x, sign y); };                                       \
            return by_rounding<flags>(exact, [](auto x, auto y) { return x sign y; }, a, b);                             \
        } else {                                                                                                         \
            T result;                                                                                                    \
            bool overflows = __builtin_##name##_overflow(a, b, &result);                                                 \
            return (flags & Sat) && overflows ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : result; \
        }                                                                                                                \
    }
EMU_PTX_SUM(add, +)
EMU_PTX_SUM(sub, -)
#undef EMU_PTX_SUM
EMU_PTX_FUNCTION T emu_mad_lo_cc(T a, T b, T c) { return add_with(emu_mad_lo<T>(a, b, 0), c, false); }
EMU_PTX_FUNCTION T emu_madc_lo(T a, T b, T c) { return add_with(emu_mad_lo<T>(a, b, 0), c, carry); }
EMU_PTX_FUNCTION T emu_mad_hi_cc(T a, T b, T c) { return add_with(emu_mul_hi<T>(a, b), c, false); }
EMU_PTX_FUNCTION T emu_madc_hi(T a, T b, T c) { return add_with(emu_mul_hi<T>(a, b), c, carry); }

EMU_PTX_FUNCTION T emu_mul(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return by_rounding<flags>([](double x, double y) { return x * y; }, [](auto x, auto y) { return x * y; }, a, b);
}

EMU_PTX_FUNCTION T emu_fma(T a, T b, T c) {
    return by_rounding<flags>([](double x, double y, double z) { return add_to_odd(x * y, z); },
                              [](auto x, auto y, auto z) { return std::fma(x, y, z); }, a, b, c);
}

EMU_PTX_FUNCTION T emu_divide(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        if (b == 0) return static_cast<T>(-1);
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - as_unsigned(a));
        return static_cast<T>(a / b);
    } else {
        return finished<flags>(input<flags>(a) / input<flags>(b));
    }
}

EMU_PTX_FUNCTION T emu_absolute(T a) {
    if constexpr (std::is_integral_v<T>) return a < 0 ? static_cast<T>(0 - as_unsigned(a)) : a;
    else if constexpr (is_short_kind<T>) return by_bits([](uint16_t bits) { return static_cast<uint16_t>(bits & 0x7fff); }, a);
    else return std::is_same_v<T, float> ? static_cast<T>(input<flags>(static_cast<float>(fabs(a)))) : fabs(a);
}
EMU_PTX_FUNCTION T emu_neg(T a) {
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
EMU_PTX_FUNCTION T emu_minimum(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a < b ? a : b;
    else if constexpr (is_short_kind<T>) return by_double<0>([](double x, double y) { return least<flags>(x, y); }, a, b);
    else return finished<flags>(least<flags>(input<flags>(a), input<flags>(b)));
}
EMU_PTX_FUNCTION T emu_maximum(T a, T b) {
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
    EMU_PTX_FUNCTION T emu_##name(T a) {                                  \
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
    EMU_PTX_FUNCTION bool emu_##name(T first, T second) {                     \
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

// Memory instructions of inline PTX (PTX ISA 8.7, 9.7.9 and 9.7.13): loads, stores, atomics, asynchronous copies, address spaces.
inline char* emu_shared_address(uint32_t offset) { return worker->shared_window().at(offset); }
inline uint64_t emu_to_shared(uint64_t address) { return worker->shared_window().offset_of(reinterpret_cast<void*>(address)); }
inline uint64_t emu_from_shared(uint64_t offset) { return reinterpret_cast<uint64_t>(worker->shared_window().at(offset)); }
inline bool emu_is_shared_space(uint64_t address) { return __isShared(reinterpret_cast<void*>(address)); }
inline bool emu_is_global_space(uint64_t address) { return __isGlobal(reinterpret_cast<void*>(address)); }
inline bool emu_is_local_space(uint64_t address) { return __isLocal(reinterpret_cast<void*>(address)); }

// Vectors are aligned as a whole.
template <class T, unsigned count>
inline T* emu_aligned(char* address) {
    if (reinterpret_cast<uintptr_t>(address) % (sizeof(T) * count)) trap("misaligned address in inline PTX");
    return reinterpret_cast<T*>(address);
}

template <class T, unsigned count>
inline void emu_load(T (&to)[count], char* from) { memcpy(to, emu_aligned<T, count>(from), sizeof to); }
template <class T, unsigned count>
inline void emu_store(char* to, const T (&from)[count]) { memcpy(static_cast<void*>(emu_aligned<T, count>(to)), from, sizeof from); }
// Volatile, relaxed, acquire and release: a thread that spins on one lets the others run.
template <class T, unsigned count>
inline void emu_load_ordered(T (&to)[count], char* from) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(emu_aligned<T, count>(from));
    count_atomic();
    for (unsigned at = 0; at < count; ++at) to[at] = __builtin_bit_cast(T, __atomic_load_n(bits + at, __ATOMIC_SEQ_CST));
}
template <class T, unsigned count>
inline void emu_store_ordered(char* to, const T (&from)[count]) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(emu_aligned<T, count>(to));
    for (unsigned at = 0; at < count; ++at) __atomic_store_n(bits + at, __builtin_bit_cast(Bits, from[at]), EMU_SWAP_ORDER);
}

#define EMU_PTX_ATOMIC(name, next)                                     \
    template <class T>                                                 \
    inline T emu_atomic_##name(T* address, T value) {                  \
        count_atomic();                                                \
        return update(address, [value](T old) -> T { return next; });  \
    }
EMU_PTX_ATOMIC(add, (emu_add<T, 0>(old, value)))
EMU_PTX_ATOMIC(min, (emu_minimum<T, 0>(old, value)))
EMU_PTX_ATOMIC(max, (emu_maximum<T, 0>(old, value)))
EMU_PTX_ATOMIC(and, static_cast<T>(old & value))
EMU_PTX_ATOMIC(or, static_cast<T>(old | value))
EMU_PTX_ATOMIC(xor, static_cast<T>(old ^ value))
EMU_PTX_ATOMIC(inc, old >= value ? T{0} : old + 1)
EMU_PTX_ATOMIC(dec, old == 0 || old > value ? value : old - 1)
#undef EMU_PTX_ATOMIC
template <class T>
inline T emu_atomic_exch(T* address, T value) { return exchange_value(address, value); }
template <class T>
inline T emu_atomic_cas(T* address, T compare, T value) {
    using Bits = typename BitsOf<T>::type;
    return emu_read<T>(compare_and_swap(reinterpret_cast<Bits*>(address), emu_read<Bits>(compare), emu_read<Bits>(value)));
}

// cp.async: 4, 8 or 16 bytes, .cg only 16; what `given` leaves is filled with zeros.
template <bool only16>
EMU_INLINE void emu_copy_async(char* to, const char* from, uint32_t bytes, uint32_t given) {
    if (bytes != 16 && (only16 || (bytes != 4 && bytes != 8))) trap("cp.async of a size that it has not");
    if (given > bytes) trap("cp.async with a src-size above its cp-size");
    if ((reinterpret_cast<uintptr_t>(to) | (given ? reinterpret_cast<uintptr_t>(from) : 0)) % bytes) trap("misaligned address in cp.async");
    copy_queue().add(to, from, bytes, given);
}

}  // namespace ptx

// The 16 barriers of a block that bar.sync and bar.arrive name, and threads that exit in the middle.

// One barrier.  A warp whose every live lane has arrived counts as 32 threads, as on the device.
struct NamedBarrier {
    unsigned wanted = 0;  // threads; 0 for all of the block
    unsigned threads = 0, arrived = 0;
    uint32_t lanes[max_threads / 32] = {};
    Worker::BarrierVotes votes;
    std::vector<Thread*> waiting;
};

struct NamedBarriers {
    uint64_t block_serial = 0;
    NamedBarrier barriers[16];

    void clear() {
        for (NamedBarrier& barrier : barriers) barrier = {};
    }
};

inline uint64_t pack_votes(const Worker::BarrierVotes& votes) { return votes.count | uint64_t{votes.all} << 32 | uint64_t{votes.any} << 33; }

EMU_UNCHECKED void Worker::release_named(NamedBarrier& barrier) {
    EMU_TELL(named_released(barrier.lanes));
    for (Thread* thread : barrier.waiting) {
        thread->received = pack_votes(barrier.votes);
        make_ready(thread->linear / 32, 1u << thread->lane());
    }
    barrier = {};
}

inline void Worker::recheck_named(Worker& self) {
    if (self.named_[0].block_serial != self.block_serial_) return;
    for (NamedBarrier& barrier : self.named_[0].barriers)
        if (barrier.arrived && !barrier.wanted && barrier.arrived == self.live_) self.release_named(barrier);
}

EMU_OUTLINE Worker::BarrierVotes Worker::named_barrier(unsigned number, unsigned threads, bool predicate, bool arrives_only) {
    if (number > 15) trap("bar.sync with a number above 15");
    if (threads % 32) trap("bar.sync with a number of threads that is not a multiple of 32");
    if (number == 0 && !arrives_only && (threads == 0 || threads == (size_ + 31) / 32 * 32)) {
        EMU_TELL(barrier_called_at(__builtin_return_address(0)));
        this->barrier(predicate);
        return result_;
    }
    after_exit_ = recheck_named;
    NamedBarrier& barrier = of_block(named_, 1, 0).barriers[number];
    if (barrier.arrived && barrier.wanted != threads) trap("bar.sync with another number of threads than those who wait at that barrier");
    barrier.wanted = threads;
    barrier.votes.count += predicate, barrier.votes.all &= predicate, barrier.votes.any |= predicate;
    unsigned warp = current_->linear / 32, before = barrier.lanes[warp];
    barrier.lanes[warp] |= 1u << current_->lane();
    ++barrier.arrived;
    barrier.threads += 1;
    if (before != barrier.lanes[warp] && barrier.lanes[warp] == warps_[warp].live)
        barrier.threads += 32 - static_cast<unsigned>(__builtin_popcount(barrier.lanes[warp]));
    bool complete = threads ? barrier.threads >= threads : barrier.arrived == live_;
    if (!arrives_only) barrier.waiting.push_back(current_);
    if (complete) release_named(barrier);
    if (!arrives_only) wait();
    uint64_t votes = current_->received;
    return {static_cast<unsigned>(votes), (votes >> 32 & 1) != 0, (votes >> 33 & 1) != 0};
}

// The stack of a thread that exits in the middle is used again from its start.
[[noreturn]] inline void Worker::exit_thread() {
    end_thread();
    prepare_context(fiber_->context, fiber_->top, &Worker::fiber_main);
    idle_.push_back(fiber_);
    Context abandoned;
    resume_next(abandoned);
    __builtin_unreachable();
}

// What a warp or a block does together in inline PTX (PTX ISA 8.7, 9.7.9.6, 9.7.13), and the special registers (chapter 10).
namespace ptx {

// up 0, down 1, bfly 2, idx 3.  `bounds` holds the clamp in its bits 0 to 4 and the segment's mask in 8 to 12.
template <unsigned mode>
inline uint32_t emu_shuffle(uint32_t value, uint32_t by, uint32_t bounds, uint32_t mask, bool& in_range) {
    int lane = static_cast<int>(emu::lane()), b = static_cast<int>(by & 31), clamp = static_cast<int>(bounds & 31);
    int segment = static_cast<int>(bounds >> 8 & 31), first = lane & segment, last = first | (clamp & ~segment);
    int source = mode == 0 ? lane - b : mode == 1 ? lane + b : mode == 2 ? lane ^ b : first | (b & ~segment);
    in_range = mode == 0 ? source >= last : source <= last;
    return shuffle(mask, value, static_cast<unsigned>(in_range ? source : lane));
}

// The device elects the lowest lane of the mask.
inline uint32_t emu_elect(uint32_t mask) {
    worker->collect(Collective::Sync, mask, 0);
    uint32_t present = mask & worker->warp().live;
    return static_cast<uint32_t>(__builtin_ctz(present ? present : 1u << emu::lane()));
}

inline Worker::BarrierVotes emu_barrier(uint32_t number, uint32_t threads, bool predicate, bool arrives_only) {
    return worker->named_barrier(number, threads, predicate, arrives_only);
}
[[noreturn]] inline void emu_exit() { worker->exit_thread(); }

#define EMU_PTX_AXES(name, variable)                          \
    inline uint32_t emu_##name##_x() { return ::variable.x; } \
    inline uint32_t emu_##name##_y() { return ::variable.y; } \
    inline uint32_t emu_##name##_z() { return ::variable.z; }
EMU_PTX_AXES(tid, threadIdx)
EMU_PTX_AXES(ntid, blockDim)
EMU_PTX_AXES(ctaid, blockIdx)
EMU_PTX_AXES(nctaid, gridDim)
#undef EMU_PTX_AXES

inline uint32_t emu_laneid() { return emu::lane(); }
inline uint32_t emu_warpid() { return worker->current().linear / 32; }
inline uint32_t emu_nwarpid() { return max_threads / 32; }
inline uint32_t emu_smid() { return 0; }
inline uint32_t emu_nsmid() { return static_cast<uint32_t>(device_properties().multiProcessorCount); }
inline uint32_t emu_gridid() { return 0; }
inline uint32_t emu_warp_lanes() { return 32; }
inline uint32_t emu_dynamic_shared_bytes() { return static_cast<uint32_t>(worker->launch()->dynamic_bytes); }
inline uint32_t emu_lanemask_eq() { return 1u << emu::lane(); }
inline uint32_t emu_lanemask_lt() { return emu_lanemask_eq() - 1; }
inline uint32_t emu_lanemask_le() { return emu_lanemask_lt() | emu_lanemask_eq(); }
inline uint32_t emu_lanemask_gt() { return ~emu_lanemask_le(); }
inline uint32_t emu_lanemask_ge() { return ~emu_lanemask_lt(); }
inline uint64_t emu_clock_cycles() { return static_cast<uint64_t>(clock64()); }
inline uint32_t emu_clock_cycles_low() { return static_cast<uint32_t>(clock64()); }
inline uint32_t emu_clock_cycles_high() { return static_cast<uint32_t>(emu_clock_cycles() >> 32); }
inline uint64_t emu_global_timer() { return __globaltimer(); }

// Conversions of inline PTX (PTX ISA 8.7, 9.7.9.21): between integers and floats, in pairs, tf32 and fp8.

template <class T>
inline constexpr bool is_float_kind = is_short<T> || std::is_floating_point_v<T>;

template <unsigned flags>
inline double rounded_to_integer(double value) {
    return (flags & Rz) ? ::trunc(value) : (flags & Rm) ? ::floor(value) : (flags & Rp) ? ::ceil(value) : ::rint(value);
}

// An integer from a double; out of range is the nearest, and NaN zero, or the highest bit alone where one of the types has 64 bits.
template <class To, class From>
inline To clamped(double value) {
    if (value != value) return sizeof(To) == 8 || sizeof(From) == 8 ? static_cast<To>(Unsigned<To>{1} << (bits_of<To> - 1)) : To{0};
    return saturate_to(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max());
}

template <class To, class From>
inline To saturated(From value) {
    if constexpr (std::is_signed_v<From>) {
        if (value < 0 && (!std::is_signed_v<To> || static_cast<int64_t>(value) < static_cast<int64_t>(std::numeric_limits<To>::min())))
            return std::numeric_limits<To>::min();
        if (value < 0) return static_cast<To>(value);
    }
    return static_cast<uint64_t>(value) > static_cast<uint64_t>(std::numeric_limits<To>::max()) ? std::numeric_limits<To>::max() : static_cast<To>(value);
}

template <class To, class From, unsigned flags>
inline To emu_convert(From value) {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        return (flags & Sat) ? saturated<To>(value) : static_cast<To>(value);
    } else if constexpr (std::is_integral_v<From>) {
        if constexpr (is_short<To>) return {narrowed<typename To::Format, flags>(static_cast<double>(value))};
        else if constexpr (std::is_same_v<To, float>) return finished<flags>(to_float<flags>(static_cast<long double>(value)));
        else return static_cast<double>(value);
    } else {
        double given;
        if constexpr (is_short<From>) given = wide<typename From::Format>(value.bits);
        else given = input<flags>(value);
        if constexpr (std::is_integral_v<To>) {
            return clamped<To, From>(rounded_to_integer<flags>(given));
        } else {
            if constexpr ((flags & IntegerRounding) != 0) given = rounded_to_integer<flags>(given);
            if constexpr (is_short<To>) return {narrowed<typename To::Format, (flags & IntegerRounding) ? flags & ~(Rz | Rm | Rp) : flags>(given)};
            else if constexpr (std::is_same_v<To, float>) return finished<flags>(to_float<flags>(given));
            else return (flags & Sat) ? (given > 0 ? (given < 1 ? given : 1.0) : 0.0) : given;
        }
    }
}

// fp8: the largest finite number instead of what lies beyond.
struct E4m3 {
    static constexpr auto kind = __NV_E4M3;
};
struct E5m2 {
    static constexpr auto kind = __NV_E5M2;
};

// The first operand becomes the upper half.
template <class To, unsigned flags>
inline auto emu_convert_two(float a, float b) {
    if constexpr (is_pair<To>) {
        using F = typename To::Format;
        auto one = [](float value) {
            uint16_t bits = narrowed<F, flags>(static_cast<double>(value));
            bool infinite = F::to_float(bits) == __builtin_inff() || F::to_float(bits) == -__builtin_inff();
            return static_cast<uint16_t>((flags & SatFinite) && infinite ? bits - 1 : bits);
        };
        return To{one(b), one(a)};
    } else {
        auto one = [](float value) { return encode_fp8((flags & Relu) && value <= 0 ? 0.0f : value, __NV_SATFINITE, To::kind); };
        return static_cast<uint16_t>(one(a) << 8 | one(b));
    }
}
template <class F, unsigned flags>
inline uint16_t emu_pack_fp8(Half2 pair) {
    return emu_convert_two<F, flags>(HalfFormat::to_float(pair.high), HalfFormat::to_float(pair.low));
}
template <class F, unsigned flags>
inline Half2 emu_unpack_fp8(uint16_t bits) {
    auto one = [](uint32_t code) { return narrowed<HalfFormat, flags>(fp8_to_float(code & 0xff, F::kind)); };
    return {one(bits), one(bits >> 8)};
}

// tf32: 10 fraction bits in a float's place; rna rounds halves away from zero, rn to even.
template <unsigned flags>
inline uint32_t emu_to_tf32(float value) {
    uint32_t bits = bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu;
    if ((flags & Relu) && (bits >> 31)) return 0;
    if ((bits & 0x7fffffffu) == 0x7f800000u) return bits;
    if constexpr ((flags & Rz) == 0) bits += (flags & Rna) ? 0x1000u : 0xfffu + (bits >> 13 & 1);
    return bits & ~0x1fffu;
}

// ldmatrix, stmatrix and movmatrix (PTX ISA 8.7, 9.7.14.5.15 to 9.7.14.5.17): matrices of 8 x 8 elements of 16 bits.

// Element (row, column) of a matrix whose rows are four registers each.
inline uint32_t element(const uint32_t* row, unsigned column) { return row[column / 2] >> 16 * (column & 1) & 0xffff; }

inline char* matrix_row(char* address) {
    if (reinterpret_cast<uintptr_t>(address) % 16) trap("ldmatrix or stmatrix of a row that is not aligned to 16 bytes");
    return address;
}

// Row i of matrix m lies where lane 8 m + i says.  A lane gets the elements (g, 2t) and (g, 2t + 1), transposed (2t, g) and (2t + 1, g), where g
// is its number divided by 4 and t the rest.
template <unsigned count, bool transposed>
inline void emu_ldmatrix(uint32_t (&to)[count], char* address) {
    unsigned lane = emu::lane(), g = lane / 4, t = lane % 4;
    uint32_t row[4] = {};
    if (lane < 8 * count) memcpy(row, matrix_row(address), sizeof row);
    auto rows = share_registers(row, 4, "ldmatrix");
    for (unsigned m = 0; m < count; ++m) {
        if (transposed) to[m] = element(rows[8 * m + 2 * t], g) | element(rows[8 * m + 2 * t + 1], g) << 16;
        else to[m] = rows[8 * m + g][t];
    }
}

// The reverse.  All rows are written before any lane goes on.
template <unsigned count, bool transposed>
inline void emu_stmatrix(char* address, const uint32_t (&from)[count]) {
    unsigned lane = emu::lane(), m = lane / 8, i = lane % 8;
    auto registers = share_registers(from, count, "stmatrix");
    if (lane < 8 * count) {
        uint32_t row[4];
        for (unsigned pair = 0; pair < 4; ++pair) {
            if (!transposed) {
                row[pair] = registers[i * 4 + pair][m];
            } else {  // element (i, c) is half i & 1 of lane 4 c + i / 2
                uint32_t low = registers[4 * (2 * pair) + i / 2][m], high = registers[4 * (2 * pair + 1) + i / 2][m];
                row[pair] = (low >> 16 * (i & 1) & 0xffff) | (high >> 16 * (i & 1) & 0xffff) << 16;
            }
        }
        memcpy(matrix_row(address), row, sizeof row);
    }
    worker->collect(Collective::Sync, ~0u, 0);
}

inline uint32_t emu_movmatrix(uint32_t value) {
    unsigned lane = emu::lane(), g = lane / 4, t = lane % 4;
    auto registers = share_registers(&value, 1, "movmatrix");
    auto at = [&](unsigned row, unsigned column) { return registers[4 * row + column / 2][0] >> 16 * (column & 1) & 0xffff; };
    return at(2 * t, g) | at(2 * t + 1, g) << 16;
}

}  // namespace ptx
}  // namespace emu
