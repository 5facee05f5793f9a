// fp8: __nv_fp8_e4m3, __nv_fp8_e5m2, their pairs and fours, and the conversions.  e8m0 is not here.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "emu/tensor/formats.h"

namespace emu EMU_HIDDEN {
inline __nv_fp8x2_storage_t join_fp8(__nv_fp8_storage_t low, __nv_fp8_storage_t high) { return static_cast<__nv_fp8x2_storage_t>(low | high << 8); }
inline __nv_fp8x4_storage_t join_fp8x2(__nv_fp8x2_storage_t low, __nv_fp8x2_storage_t high) { return low | __nv_fp8x4_storage_t{high} << 16; }
}  // namespace emu

#define EMU_TO_FP8(from, From, pair, Pair, value)                                                                                              \
    inline __nv_fp8_storage_t __nv_cvt_##from##_to_fp8(From x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {                    \
        return emu::encode_fp8(value, saturate, kind);                                                                                          \
    }                                                                                                                                           \
    inline __nv_fp8x2_storage_t __nv_cvt_##pair##_to_fp8x2(Pair x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {                \
        return emu::join_fp8(__nv_cvt_##from##_to_fp8(From{x.x}, saturate, kind), __nv_cvt_##from##_to_fp8(From{x.y}, saturate, kind));         \
    }
EMU_TO_FP8(double, double, double2, double2, x)
EMU_TO_FP8(float, float, float2, float2, x)
EMU_TO_FP8(halfraw, __half_raw, halfraw2, __half2_raw, emu::HalfFormat::to_float(x.x))
EMU_TO_FP8(bfloat16raw, __nv_bfloat16_raw, bfloat16raw2, __nv_bfloat162_raw, emu::BfloatFormat::to_float(x.x))
#undef EMU_TO_FP8
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) { return {emu::fp8_to_half(x, kind)}; }
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {emu::fp8_to_half(x & 0xffu, kind), emu::fp8_to_half(x >> 8, kind)};
}

namespace emu EMU_HIDDEN {

// The constructors saturate, as documented; integers go through float.
template <__nv_fp8_interpretation_t kind>
struct Fp8 {
    __nv_fp8_storage_t __x;

    Fp8() = default;
    explicit Fp8(__half f) : __x(__nv_cvt_halfraw_to_fp8(f, __NV_SATFINITE, kind)) {}
    explicit Fp8(__nv_bfloat16 f) : __x(__nv_cvt_bfloat16raw_to_fp8(f, __NV_SATFINITE, kind)) {}
    explicit Fp8(float f) : __x(encode_fp8(f, __NV_SATFINITE, kind)) {}
    explicit Fp8(double f) : __x(encode_fp8(f, __NV_SATFINITE, kind)) {}
    template <class T>
        requires std::is_integral_v<T>
    explicit Fp8(T value) : Fp8(static_cast<float>(value)) {}

    explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, kind); }
    explicit operator float() const { return fp8_to_float(__x, kind); }
    explicit operator double() const { return static_cast<float>(*this); }
    explicit operator __nv_bfloat16() const { return __float2bfloat16_rz(static_cast<float>(*this)); }
    explicit operator bool() const { return (__x & 0x7fu) != 0; }
    template <class T>
        requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
    explicit operator T() const { return saturate_to_all<T>(static_cast<float>(*this)); }
};

template <__nv_fp8_interpretation_t kind>
struct alignas(2) Fp8x2 {
    __nv_fp8x2_storage_t __x;

    Fp8x2() = default;
    explicit Fp8x2(__half2 f) : __x(__nv_cvt_halfraw2_to_fp8x2(f, __NV_SATFINITE, kind)) {}
    explicit Fp8x2(__nv_bfloat162 f) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(f, __NV_SATFINITE, kind)) {}
    explicit Fp8x2(float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, kind)) {}
    explicit Fp8x2(double2 f) : __x(__nv_cvt_double2_to_fp8x2(f, __NV_SATFINITE, kind)) {}

    explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind); }
    explicit operator float2() const { return {fp8_to_float(__x & 0xffu, kind), fp8_to_float(__x >> 8, kind)}; }
};

template <__nv_fp8_interpretation_t kind>
struct alignas(4) Fp8x4 {
    __nv_fp8x4_storage_t __x;

    Fp8x4() = default;
    explicit Fp8x4(__half2 low, __half2 high) : __x(join_fp8x2(Fp8x2<kind>(low).__x, Fp8x2<kind>(high).__x)) {}
    explicit Fp8x4(__nv_bfloat162 low, __nv_bfloat162 high) : __x(join_fp8x2(Fp8x2<kind>(low).__x, Fp8x2<kind>(high).__x)) {}
    explicit Fp8x4(float4 f) : __x(join_fp8x2(Fp8x2<kind>(float2{f.x, f.y}).__x, Fp8x2<kind>(float2{f.z, f.w}).__x)) {}
    explicit Fp8x4(double4 f) : __x(join_fp8x2(Fp8x2<kind>(double2{f.x, f.y}).__x, Fp8x2<kind>(double2{f.z, f.w}).__x)) {}

    explicit operator float4() const {
        return {fp8_to_float(__x & 0xffu, kind), fp8_to_float(__x >> 8 & 0xffu, kind), fp8_to_float(__x >> 16 & 0xffu, kind), fp8_to_float(__x >> 24, kind)};
    }
};

}  // namespace emu

#define EMU_FP8_TYPE(name, general, kind)   \
    struct name : emu::general<kind> {      \
        name() = default;                   \
        using emu::general<kind>::general;  \
    };
EMU_FP8_TYPE(__nv_fp8_e4m3, Fp8, __NV_E4M3)
EMU_FP8_TYPE(__nv_fp8_e5m2, Fp8, __NV_E5M2)
EMU_FP8_TYPE(__nv_fp8x2_e4m3, Fp8x2, __NV_E4M3)
EMU_FP8_TYPE(__nv_fp8x2_e5m2, Fp8x2, __NV_E5M2)
EMU_FP8_TYPE(__nv_fp8x4_e4m3, Fp8x4, __NV_E4M3)
EMU_FP8_TYPE(__nv_fp8x4_e5m2, Fp8x4, __NV_E5M2)
#undef EMU_FP8_TYPE
