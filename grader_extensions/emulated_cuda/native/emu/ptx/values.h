// Registers of inline PTX as bit patterns, the values that instructions read from them, and rounding.
// The translator (grader_extensions/emulated_cuda/ptx_translation.py) writes calls of the functions whose names begin with emu_.
#pragma once

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
        Bits bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
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

}  // namespace ptx
}  // namespace emu
