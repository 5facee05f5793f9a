// fp16 and bf16 as bits: conversions, rounded to nearest even (or as named).
#pragma once

#include <limits>
#include <type_traits>

#include "bits.h"

namespace emu EMU_HIDDEN {

template <class To>
inline To saturate_to_all(float value) { return saturate_to<To>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()); }

// True where one operand at least is torch's type of a format, and the other one is that or our own.
template <class A, class B, class Torch, class Own>
constexpr bool is_mixed = (std::is_same_v<A, Torch> && (std::is_same_v<B, Torch> || std::is_same_v<B, Own>)) ||
                          (std::is_same_v<A, Own> && std::is_same_v<B, Torch>);

enum class Rounding { Nearest, TowardZero, Up, Down };

// One value in a narrower format, by its own arithmetic: right for every rounding, infinities and subnormals included.
template <int exponent_bits, int fraction_bits>
inline uint16_t narrow(double value, Rounding rounding) {
    constexpr int bias = (1 << (exponent_bits - 1)) - 1, lowest = 1 - bias;
    constexpr uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
    uint64_t bits = bit_cast<uint64_t>(value);
    auto sign = static_cast<uint16_t>(bits >> 63 << 15);
    if (value != value) return 0x7fff;
    double magnitude = fabs(value);
    if (magnitude == HUGE_VAL) return sign | infinity;
    if (magnitude == 0) return sign;
    int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    if (exponent < lowest) exponent = lowest;
    double steps = ldexp(magnitude, fraction_bits - exponent);  // in units of the last place, exact
    double whole = floor(steps), rest = steps - whole;
    bool away = rounding == Rounding::Nearest ? rest > 0.5 || (rest == 0.5 && fmod(whole, 2.0) == 1.0)
                : rounding == Rounding::Up    ? rest > 0 && !sign
                : rounding == Rounding::Down  ? rest > 0 && sign
                                              : false;
    // Adding the fraction with its leading one to the exponent's field carries by itself.
    auto fraction = static_cast<int64_t>(whole) + away;
    int64_t result = fraction + (static_cast<int64_t>(exponent + bias - 1) << fraction_bits);
    if (result < infinity) return static_cast<uint16_t>(sign | result);
    bool to_infinity = rounding == Rounding::Nearest || (rounding == Rounding::Up && !sign) || (rounding == Rounding::Down && sign);
    return static_cast<uint16_t>(sign | (to_infinity ? infinity : infinity - 1));
}

struct HalfFormat {
    static uint16_t from_float(float value) {
        uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
        auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
        if (magnitude > 0x7f800000u) return 0x7fff;
        if (magnitude >= 0x47800000u) return sign | 0x7c00;
        // Adding 0.5 leaves exactly the bits of a subnormal half at the end of the float, rounded by the processor.
        if (magnitude < 0x38800000u) return static_cast<uint16_t>(sign | (bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u));
        return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13));
    }
    static float to_float(uint16_t bits) {
        uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
        if (magnitude >= 0x7c00u) return bit_cast<float>(magnitude == 0x7c00u ? sign | 0x7f800000u : 0x7fffffffu);
        if (magnitude < 0x400u) return bit_cast<float>(sign | bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
        return bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
    }
    static uint16_t from_double(double value, Rounding rounding) { return narrow<5, 10>(value, rounding); }
};

struct BfloatFormat {
    static uint16_t from_float(float value) {
        uint32_t bits = bit_cast<uint32_t>(value);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
        return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
    }
    static float to_float(uint16_t bits) { return bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
    static uint16_t from_double(double value, Rounding rounding) { return narrow<8, 7>(value, rounding); }
};

}  // namespace emu
