// Conversions of inline PTX (PTX ISA 8.7, 9.7.9.21): between integers and floats, in pairs, tf32 and fp8.
#pragma once

#include <limits>

#include "../fp8_bits.h"
#include "floating.h"

namespace emu EMU_HIDDEN {
namespace ptx {

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
    if (value <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
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

// A 64-bit integer as float in one rounding of the direction that the flags say.
template <unsigned flags, class From>
inline float float_of_integer(From value) {
    float near = static_cast<float>(value);
    if constexpr ((flags & (Rz | Rm | Rp)) != 0) {
        auto exact = static_cast<long double>(value), back = static_cast<long double>(near);
        bool up = (flags & Rp) || ((flags & Rz) && value < 0);
        if (up ? back < exact : back > exact) near = __builtin_nextafterf(near, up ? __builtin_inff() : -__builtin_inff());
    }
    return near;
}

template <class To, class From, unsigned flags>
inline To emu_convert(From value) {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        return (flags & Sat) ? saturated<To>(value) : static_cast<To>(value);
    } else if constexpr (std::is_integral_v<From>) {
        if constexpr (is_short<To>) return {narrowed<typename To::Format, flags>(static_cast<double>(value))};
        else if constexpr (std::is_same_v<To, float>) return finished<flags>(float_of_integer<flags>(value));
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

// cvt.pack.sat: a above b, both above what is left of c.
template <class To>
inline uint32_t emu_pack(int32_t a, int32_t b, uint32_t c) {
    constexpr unsigned width = sizeof(To) * 8;
    auto one = [](int32_t value) { return static_cast<uint32_t>(static_cast<Unsigned<To>>(saturated<To>(value))); };
    uint32_t pair = one(a) << width | one(b);
    return width == 16 ? pair : c << 16 | pair;
}

}  // namespace ptx
}  // namespace emu
