// The element types of tensor instructions, and what a field of a register stands for as a number.
#pragma once

#include "../short_float_bits.h"

namespace emu EMU_HIDDEN {

// The element types, as tags.
namespace ptx {

struct f16 { static constexpr unsigned bits = 16; };
struct bf16 { static constexpr unsigned bits = 16; };
struct tf32 { static constexpr unsigned bits = 32; };
struct f32 { static constexpr unsigned bits = 32; };
struct f64 { static constexpr unsigned bits = 64; };
struct s32 { static constexpr unsigned bits = 32; };
struct s8 { static constexpr unsigned bits = 8; };
struct u8 { static constexpr unsigned bits = 8; };
struct s4 { static constexpr unsigned bits = 4; };
struct u4 { static constexpr unsigned bits = 4; };
struct b1_xor { static constexpr unsigned bits = 1; };
struct b1_and { static constexpr unsigned bits = 1; };
struct e4m3 { static constexpr unsigned bits = 8; };
struct e5m2 { static constexpr unsigned bits = 8; };
}  // namespace ptx

// A floating-point operand.  The exponent is the operand's own field: that of subnormals is the least of the format.
struct Operand {
    double value;
    int16_t exponent;
    bool special;  // infinite or NaN
};

// A zero, or a product with one, has no say in the largest exponent (an H100 differs here from MMA-Sim, which takes -126).
inline constexpr int16_t zero_exponent = -400;
// That of the product of two subnormals of bf16 is -252.
inline constexpr int16_t least_exponent = -260;

inline Operand decode_half(uint32_t bits) {
    uint32_t magnitude = bits & 0x7fffu;
    bool special = magnitude >= 0x7c00u;
    if (special) return {HalfFormat::to_float(static_cast<uint16_t>(bits)), 16, true};
    // The exponent's field moved to that of a float, whose bias differs by 112.
    float value = bit_cast<float>((bits & 0x8000u) << 16 | magnitude << 13) * 0x1p112f;
    int exponent = magnitude >= 0x400u ? static_cast<int>(magnitude >> 10) - 15 : magnitude ? -14 : zero_exponent;
    return {value, static_cast<int16_t>(exponent), false};
}

inline Operand decode_float(uint32_t bits) {
    int field = static_cast<int>(bits >> 23 & 0xffu);
    int exponent = field ? field - 127 : bits << 1 ? -126 : zero_exponent;
    return {bit_cast<float>(bits), static_cast<int16_t>(exponent), field == 255};
}

template <class T>
Operand decode_operand(uint32_t field);
template <>
inline Operand decode_operand<ptx::f16>(uint32_t field) { return decode_half(field); }
template <>
inline Operand decode_operand<ptx::bf16>(uint32_t field) { return decode_float(field << 16); }
// The low 13 bits are not read, whatever they hold.
template <>
inline Operand decode_operand<ptx::tf32>(uint32_t field) { return decode_float(field & ~0x1fffu); }
template <>
inline Operand decode_operand<ptx::f32>(uint32_t field) { return decode_float(field); }

// fp8 (OCP OFP8) as the half of the same value.
inline uint16_t e5m2_to_half(uint32_t code) { return static_cast<uint16_t>(code << 8); }
inline uint16_t e4m3_to_half(uint32_t code) {
    auto sign = static_cast<uint16_t>((code & 0x80u) << 8);
    uint32_t magnitude = code & 0x7fu;
    if (magnitude == 0x7f) return 0x7fff;
    if (magnitude >= 8) return static_cast<uint16_t>(sign | ((magnitude << 7) + (8u << 10)));
    static constexpr uint16_t subnormal[8] = {0, 0x1800, 0x1c00, 0x1e00, 0x2000, 0x2100, 0x2200, 0x2300};
    return sign | subnormal[magnitude];
}

template <class T>
int decode_integer(uint32_t field);
template <>
inline int decode_integer<ptx::s8>(uint32_t field) { return static_cast<int8_t>(field); }
template <>
inline int decode_integer<ptx::u8>(uint32_t field) { return static_cast<int>(field); }
template <>
inline int decode_integer<ptx::s4>(uint32_t field) { return static_cast<int>(field ^ 8u) - 8; }
template <>
inline int decode_integer<ptx::u4>(uint32_t field) { return static_cast<int>(field); }

}  // namespace emu

// fp8 (OCP OFP8: e4m3 and e5m2) as bits: rounded to nearest even, with or without saturation, and back to fp16.
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace emu EMU_HIDDEN {

struct Fp8Format {
    int fraction_bits, bias;
    uint8_t largest, overflow;  // the code of what is too large where it is not made the largest: NaN or infinity
};
inline constexpr Fp8Format fp8_formats[] = {{3, 7, 0x7e, 0x7f}, {2, 15, 0x7b, 0x7c}};

inline uint8_t encode_fp8(double value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const Fp8Format& format = fp8_formats[kind];
    uint64_t bits = bit_cast<uint64_t>(value);
    auto sign = static_cast<uint8_t>(bits >> 63 << 7);
    // A NaN of e5m2 keeps the first bits of the payload.
    if (value != value) return static_cast<uint8_t>(sign | (kind == __NV_E4M3 ? 0x7fu : 0x7eu | (bits >> 50 & 3u)));
    double magnitude = fabs(value);
    uint8_t too_large = sign | (saturation == __NV_SATFINITE ? format.largest : format.overflow);
    if (magnitude >= 0x1p17) return too_large;
    int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023, lowest = 1 - format.bias;
    if (exponent < lowest) exponent = lowest;
    double step = bit_cast<double>(static_cast<uint64_t>(1023 + format.fraction_bits - exponent) << 52);
    // Adding the fraction with its leading one to the exponent's field carries by itself.
    auto code = static_cast<int>(rint(magnitude * step)) + ((exponent - lowest) << format.fraction_bits);
    return code > format.largest ? too_large : static_cast<uint8_t>(sign | code);
}

// A float's NaN has lost its sign and payload before it is encoded.
inline uint8_t encode_fp8(float value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return value != value ? uint8_t{0x7f} : encode_fp8(static_cast<double>(value), saturation, kind);
}

inline uint16_t fp8_to_half(uint32_t code, __nv_fp8_interpretation_t kind) {
    if (kind == __NV_E4M3) return e4m3_to_half(code);
    return (code & 0x7fu) > 0x7cu ? uint16_t{0x7fff} : e5m2_to_half(code);
}

inline float fp8_to_float(uint32_t code, __nv_fp8_interpretation_t kind) { return HalfFormat::to_float(fp8_to_half(code, kind)); }

}  // namespace emu
