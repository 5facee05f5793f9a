// cuRAND in kernels: XORWOW and Philox.  Bits and uniform numbers are those of the GPU; normal ones differ from it by the rounding of
// logarithm, sine and cosine, which the GPU approximates.
#pragma once

#include <cuda_runtime.h>
#include <curand.h>
#include <memory>

// The second of two normal numbers, until it is asked for.
namespace emu EMU_HIDDEN {

enum class NormalKind : unsigned char { None, Normal, LogNormal };

template <class T>
struct KeptNormal {
    NormalKind kind = NormalKind::None;
    T value = 0;

    // The kept one if it is of this kind; else one of the two that `draw` makes. As cuRAND, it forgets one of the other kind.
    template <class Draw>
    T next(NormalKind wanted, Draw draw) {
        bool kept = kind == wanted;
        kind = kept ? NormalKind::None : wanted;
        if (kept) return value;
        auto two = draw();
        value = two.y;
        return two.x;
    }
};

}  // namespace emu

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011), with cuRAND's use of the counter:
// the lower half counts groups of four numbers, the upper half is the sequence.
struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned used;  // of the four numbers in `output`
    emu::KeptNormal<float> kept;
    emu::KeptNormal<double> kept_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace emu EMU_HIDDEN {

inline uint4 philox(uint4 c, uint2 k) {
    for (int round = 0; round < 10; ++round) {
        uint64_t a = uint64_t{0xD2511F53u} * c.x, b = uint64_t{0xCD9E8D57u} * c.z;
        c = {static_cast<unsigned>(b >> 32) ^ c.y ^ k.x, static_cast<unsigned>(b), static_cast<unsigned>(a >> 32) ^ c.w ^ k.y,
             static_cast<unsigned>(a)};
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    return c;
}

inline void philox_sequence(curandStatePhilox4_32_10* state, uint64_t count) {
    uint64_t high = (uint64_t{state->ctr.w} << 32 | state->ctr.z) + count;
    state->ctr.z = static_cast<unsigned>(high);
    state->ctr.w = static_cast<unsigned>(high >> 32);
}

inline void philox_advance(curandStatePhilox4_32_10* state, uint64_t count) {
    uint64_t low = (uint64_t{state->ctr.y} << 32 | state->ctr.x) + count;
    state->ctr.x = static_cast<unsigned>(low);
    state->ctr.y = static_cast<unsigned>(low >> 32);
    if (low < count) philox_sequence(state, 1);
}

}  // namespace emu

inline unsigned curand(curandStatePhilox4_32_10* state) {
    unsigned numbers[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
    unsigned number = numbers[state->used++];
    if (state->used == 4) {
        emu::philox_advance(state, 1);
        state->output = emu::philox(state->ctr, state->key);
        state->used = 0;
    }
    return number;
}
inline uint4 curand4(curandStatePhilox4_32_10* state) {
    unsigned numbers[4];
    for (unsigned& number : numbers) number = curand(state);
    return {numbers[0], numbers[1], numbers[2], numbers[3]};
}
inline void skipahead(unsigned long long count, curandStatePhilox4_32_10* state) {
    state->used += static_cast<unsigned>(count & 3);
    emu::philox_advance(state, count / 4 + state->used / 4);
    state->used %= 4;
    state->output = emu::philox(state->ctr, state->key);
}
inline void skipahead_sequence(unsigned long long count, curandStatePhilox4_32_10* state) {
    emu::philox_sequence(state, count);
    state->output = emu::philox(state->ctr, state->key);
}
inline void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandStatePhilox4_32_10* state) {
    *state = {};
    state->key = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}

// XORWOW, Marsaglia's generator (Journal of Statistical Software 8(14), 2003), with cuRAND's seeding and its sequences 2^67 apart.
struct curandStateXORWOW {
    unsigned d, v[5];
    emu::KeptNormal<float> kept;
    emu::KeptNormal<double> kept_double;
};
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;

namespace emu EMU_HIDDEN {

struct XorwowBits {
    unsigned v[5];
};

inline void xorwow_step(unsigned* v) {
    unsigned t = v[0] ^ (v[0] >> 2);
    for (int i = 0; i < 4; ++i) v[i] = v[i + 1];
    v[4] = (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1));
}

// A step is linear over the field of two elements: row b is what becomes of bit b.
struct XorwowMatrix {
    XorwowBits rows[160];

    XorwowBits operator*(const XorwowBits& bits) const {
        XorwowBits out{};
        for (int b = 0; b < 160; ++b) {
            unsigned all = -(bits.v[b / 32] >> (b % 32) & 1u);
            for (int i = 0; i < 5; ++i) out.v[i] ^= rows[b].v[i] & all;
        }
        return out;
    }
};

// The step to the powers 2^0 to 2^130, each the square of the one before.
inline const XorwowMatrix* xorwow_powers() {
    static const std::unique_ptr<XorwowMatrix[]> powers = [] {
        auto made = std::make_unique<XorwowMatrix[]>(131);
        for (int b = 0; b < 160; ++b) {
            XorwowBits bits{};
            bits.v[b / 32] = 1u << b % 32;
            xorwow_step(bits.v);
            made[0].rows[b] = bits;
        }
        for (int power = 1; power < 131; ++power)
            for (int b = 0; b < 160; ++b) made[power].rows[b] = made[power - 1] * made[power - 1].rows[b];
        return made;
    }();
    return powers.get();
}

inline void xorwow_skip(curandStateXORWOW* state, unsigned long long count, int first_power) {
    XorwowBits bits;
    memcpy(bits.v, state->v, sizeof bits.v);
    for (int power = first_power; count; count >>= 1, ++power)
        if (count & 1) bits = xorwow_powers()[power] * bits;
    memcpy(state->v, bits.v, sizeof bits.v);
}

}  // namespace emu

inline unsigned curand(curandStateXORWOW* state) {
    emu::xorwow_step(state->v);
    state->d += 362437;
    return state->v[4] + state->d;
}
inline void skipahead(unsigned long long count, curandStateXORWOW* state) {
    emu::xorwow_skip(state, count, 0);
    state->d += 362437u * static_cast<unsigned>(count);
}
inline void skipahead_sequence(unsigned long long count, curandStateXORWOW* state) { emu::xorwow_skip(state, count, 67); }
inline void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandStateXORWOW* state) {
    unsigned low = static_cast<unsigned>(seed) ^ 0xaad26b49u, high = static_cast<unsigned>(seed >> 32) ^ 0xf7dcefddu;
    unsigned t0 = 1099087573u * low, t1 = 2591861531u * high;
    *state = {6615241 + t1 + t0, {123456789u + t0, 362436069u ^ t0, 521288629u + t1, 88675123u ^ t1, 5783321u + t0}, {}, {}};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}

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
template <class State>
float2 box_muller(State* state) {
    unsigned x = curand(state), y = curand(state);
    return box_muller(x, y);
}
template <class State>
double2 box_muller_double(State* state) {
    unsigned x = curand(state), y = curand(state), z = curand(state), w = curand(state);
    double radius = sqrt(-2.0 * log(uniform_double(x, y))), angle = 2 * M_PI * uniform_double(z, w);
    return {sin(angle) * radius, cos(angle) * radius};
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
#define EMU_NORMALS(suffix, T, kept_numbers, exponential, two_numbers)                                                    \
    template <class State>                                                                                               \
    T##2 curand_normal2##suffix(State* state) { return two_numbers; }                                                    \
    template <class State>                                                                                               \
    T##2 curand_log_normal2##suffix(State* state, T mean, T deviation) {                                                 \
        T##2 two = curand_normal2##suffix(state);                                                                        \
        return {exponential(mean + deviation * two.x), exponential(mean + deviation * two.y)};                           \
    }                                                                                                                    \
    template <class State>                                                                                               \
    T curand_normal##suffix(State* state) {                                                                              \
        return state->kept_numbers.next(emu::NormalKind::Normal, [&] { return curand_normal2##suffix(state); });         \
    }                                                                                                                    \
    template <class State>                                                                                               \
    T curand_log_normal##suffix(State* state, T mean, T deviation) {                                                     \
        auto draw = [&] { return curand_log_normal2##suffix(state, mean, deviation); };                                  \
        return state->kept_numbers.next(emu::NormalKind::LogNormal, draw);                                               \
    }
EMU_NORMALS(, float, kept, expf, emu::box_muller(state))
EMU_NORMALS(_double, double, kept_double, exp, emu::box_muller_double(state))
#undef EMU_NORMALS
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
