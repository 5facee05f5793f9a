// XORWOW, Marsaglia's generator (Journal of Statistical Software 8(14), 2003), with cuRAND's seeding and its sequences 2^67 apart.
#pragma once

#include "kept_normal.h"

#include <memory>

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
