// cuRAND in kernels: XORWOW and Philox.  Bits and uniform numbers are those of the GPU; normal ones differ from it by the rounding of
// logarithm, sine and cosine, which the GPU approximates.
#pragma once

#include <curand.h>

#include "emu/random/philox.h"
#include "emu/random/xorwow.h"

namespace emu EMU_HIDDEN {

inline float uniform_float(unsigned x) { return static_cast<float>(x) * 0x1p-32f + 0x1p-33f; }
inline double uniform_double(unsigned x, unsigned y) {
    uint64_t bits = x ^ uint64_t{y} << 21;
    return static_cast<double>(bits) * 0x1p-53 + 0x1p-54;
}

// Box and Muller's method (Annals of Mathematical Statistics 29, 1958).
inline float2 box_muller(unsigned x, unsigned y) {
    constexpr float turn = 6.2831855f;
    float radius = sqrtf(-2.0f * logf(uniform_float(x))), angle = static_cast<float>(y) * (0x1p-32f * turn) + 0x1p-33f * turn;
    return {sinf(angle) * radius, cosf(angle) * radius};
}
inline double2 box_muller_double(uint4 bits) {
    double radius = sqrt(-2.0 * log(uniform_double(bits.x, bits.y))), angle = 2 * M_PI * uniform_double(bits.z, bits.w);
    return {sin(angle) * radius, cos(angle) * radius};
}

template <class State>
uint4 four_bits(State* state) {
    unsigned x = curand(state), y = curand(state), z = curand(state), w = curand(state);
    return {x, y, z, w};
}

}  // namespace emu

template <class State>
float curand_uniform(State* state) { return emu::uniform_float(curand(state)); }
inline double curand_uniform_double(curandStateXORWOW* state) {
    unsigned x = curand(state), y = curand(state);
    return emu::uniform_double(x, y);
}
// Of one number only, unlike XORWOW's.
inline double curand_uniform_double(curandStatePhilox4_32_10* state) { return curand(state) * 0x1p-32 + 0x1p-32; }
template <class State>
float2 curand_normal2(State* state) {
    unsigned x = curand(state), y = curand(state);
    return emu::box_muller(x, y);
}
template <class State>
double2 curand_normal2_double(State* state) { return emu::box_muller_double(emu::four_bits(state)); }
template <class State>
float2 curand_log_normal2(State* state, float mean, float deviation) {
    float2 two = curand_normal2(state);
    return {expf(mean + deviation * two.x), expf(mean + deviation * two.y)};
}
template <class State>
double2 curand_log_normal2_double(State* state, double mean, double deviation) {
    double2 two = curand_normal2_double(state);
    return {exp(mean + deviation * two.x), exp(mean + deviation * two.y)};
}
template <class State>
float curand_normal(State* state) {
    return state->kept.next(emu::NormalKind::Normal, [&] { return curand_normal2(state); });
}
template <class State>
double curand_normal_double(State* state) {
    return state->kept_double.next(emu::NormalKind::Normal, [&] { return curand_normal2_double(state); });
}
template <class State>
float curand_log_normal(State* state, float mean, float deviation) {
    return state->kept.next(emu::NormalKind::LogNormal, [&] { return curand_log_normal2(state, mean, deviation); });
}
template <class State>
double curand_log_normal_double(State* state, double mean, double deviation) {
    return state->kept_double.next(emu::NormalKind::LogNormal, [&] { return curand_log_normal2_double(state, mean, deviation); });
}
inline float4 curand_uniform4(curandStatePhilox4_32_10* state) {
    uint4 x = curand4(state);
    return {emu::uniform_float(x.x), emu::uniform_float(x.y), emu::uniform_float(x.z), emu::uniform_float(x.w)};
}
inline float4 curand_normal4(curandStatePhilox4_32_10* state) {
    uint4 x = curand4(state);
    float2 a = emu::box_muller(x.x, x.y), b = emu::box_muller(x.z, x.w);
    return {a.x, a.y, b.x, b.y};
}
inline float4 curand_log_normal4(curandStatePhilox4_32_10* state, float mean, float deviation) {
    float4 x = curand_normal4(state);
    return {expf(mean + deviation * x.x), expf(mean + deviation * x.y), expf(mean + deviation * x.z), expf(mean + deviation * x.w)};
}
