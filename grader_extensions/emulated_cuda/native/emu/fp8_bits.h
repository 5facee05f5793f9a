// fp8 (OCP OFP8: e4m3 and e5m2) as bits: rounded to nearest even, with or without saturation, and back to fp16.
#pragma once

#include "tensor/formats.h"

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
