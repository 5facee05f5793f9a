// Products and sums of tensor cores, by Hopper's rule.  Knows tiles of numbers, not registers or lanes.
//
// Source: MMA-Sim (microsoft/MMA-Sim, MIT; arXiv 2511.10909), compared bit for bit with an H100.  The products are exact.  The
// largest exponent is that of a product (the sum of the exponents of its factors) or of the addend; every term is cut
// toward zero at 2^(largest - 25); their sum is exact, and is cut toward zero to fp32, or rounded to nearest even to fp16.
#pragma once

#include <math.h>

#include "formats.h"

namespace emu EMU_HIDDEN {

inline constexpr int columns = 8;
inline constexpr int sum_fraction_bits = 25;

inline constexpr uint32_t float_nan = 0x7fffffffu;
inline constexpr uint16_t half_nan = 0x7fffu;

// One product of M x K by K x N, with an M x N addend.  Sums of up to 16 products fit in two 32-bit halves.
template <int M, int K, int N = columns>
struct FloatTile {
    static_assert(K <= 16 && N % columns == 0, "longer sums are made of several tiles");
    double a[M][K];
    double b[K][N];
    double c[M][N];
    int16_t a_exponent[M][K];
    alignas(16) int16_t b_exponent[K][N];
    alignas(16) int16_t c_exponent[M][N];
    bool special = false;

    void set_a(int row, int k, Operand x) {
        a[row][k] = x.value;
        a_exponent[row][k] = x.exponent;
        special |= x.special;
    }
    void set_b(int k, int column, Operand x) {
        b[k][column] = x.value;
        b_exponent[k][column] = x.exponent;
        special |= x.special;
    }
    void set_c(int row, int column, Operand x) {
        c[row][column] = x.value;
        c_exponent[row][column] = x.exponent;
        special |= x.special;
    }
};

inline double power_of_two(int exponent) { return bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52); }

// The exact sums of the terms as cut of 8 columns in a row, or, where a term is infinite or NaN, what IEEE 754 makes of it.
template <int M, int K, int N>
void sum_row(const FloatTile<M, K, N>& tile, int row, int first, double* out) {
    alignas(16) int16_t largest[columns];
    for (int n = 0; n < columns; ++n) largest[n] = tile.c_exponent[row][first + n] < least_exponent ? least_exponent : tile.c_exponent[row][first + n];
    for (int k = 0; k < K; ++k) {
        int16_t exponent = tile.a_exponent[row][k];
        for (int n = 0; n < columns; ++n) {
            auto sum = static_cast<int16_t>(exponent + tile.b_exponent[k][first + n]);
            largest[n] = largest[n] < sum ? sum : largest[n];
        }
    }
    double scale[columns];
    for (int n = 0; n < columns; ++n) scale[n] = power_of_two(sum_fraction_bits - largest[n]);
    int32_t even[columns], odd[columns]{};
    for (int n = 0; n < columns; ++n) even[n] = static_cast<int32_t>(tile.c[row][first + n] * scale[n]);
    for (int k = 0; k < K; k += 2)
        for (int n = 0; n < columns; ++n) {
            even[n] += static_cast<int32_t>(tile.a[row][k] * tile.b[k][first + n] * scale[n]);
            odd[n] += static_cast<int32_t>(tile.a[row][k + 1] * tile.b[k + 1][first + n] * scale[n]);
        }
    for (int n = 0; n < columns; ++n) out[n] = (static_cast<double>(even[n]) + odd[n]) * power_of_two(largest[n] - sum_fraction_bits);
    if (!tile.special) return;
    for (int n = 0; n < columns; ++n) {
        double sum = tile.c[row][first + n];
        for (int k = 0; k < K; ++k) sum += tile.a[row][k] * tile.b[k][first + n];
        if (!isfinite(sum)) out[n] = sum;
    }
}

template <int M, int K, int N>
void multiply(const FloatTile<M, K, N>& tile, double (&sums)[M][N]) {
    for (int row = 0; row < M; ++row)
        for (int first = 0; first < N; first += columns) sum_row(tile, row, first, sums[row] + first);
}

// To fp32, toward zero; what is too large is infinite all the same.  A zero is positive, whatever was cut.
inline uint32_t cut_to_float(double sum) {
    if (sum != sum) return float_nan;
    double magnitude = fabs(sum);
    if (magnitude < 0x1p-149) return 0;
    if (magnitude < 0x1p-126) return bit_cast<uint32_t>(static_cast<float>(trunc(sum * 0x1p149) * 0x1p-149));
    return bit_cast<uint32_t>(static_cast<float>(bit_cast<double>(bit_cast<uint64_t>(sum) & ~uint64_t{0x1fffffff})));
}

// To fp16, to nearest even: first cut to fp32 with the last bit set if anything was lost, which rounds no tie wrongly.
inline uint16_t round_to_half(double sum) {
    if (sum != sum) return half_nan;
    uint64_t bits = bit_cast<uint64_t>(sum), lost = bits & 0x1fffffffu;
    uint16_t half = HalfFormat::from_float(static_cast<float>(bit_cast<double>((bits & ~uint64_t{0x1fffffff}) | (lost ? 0x20000000u : 0u))));
    return half == 0x8000u ? uint16_t{0} : half;
}

inline uint32_t add_integers(int32_t c, int64_t products, bool saturate) {
    int64_t sum = c + products;
    if (saturate) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return static_cast<uint32_t>(sum);
}

}  // namespace emu
