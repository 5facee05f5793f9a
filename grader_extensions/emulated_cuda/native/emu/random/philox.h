// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011), with cuRAND's use of the counter:
// the lower half counts groups of four numbers, the upper half is the sequence.
#pragma once

#include "kept_normal.h"

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
