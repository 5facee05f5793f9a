// Products and sums of tensor cores, by Hopper's rule, and which element of which matrix a lane holds.
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

// Which element of which matrix a lane holds in mma.sync and nvcuda::wmma (PTX ISA, "Matrix fragments for mma"), and the products of those.
//
// One formula covers all shapes of mma.sync: with g = lane / 4, t = lane % 4, and e elements in a register, register r of A holds, for
// 0 <= j < e, row g + 8 (r & 1) and column e t + j + 4 e (r >> 1); register r of B holds row e t + j + 4 e r of column g.
// Where M is 8, the registers of A go along the columns only.  wmma's mapping is not documented; this is what sm_80 and later do.

template <class T>
inline constexpr int per_register = T::bits >= 32 ? 1 : 32 / static_cast<int>(T::bits);

// Element j of a register, as the low bits.
template <class T>
uint32_t field(uint32_t word, int j) {
    if constexpr (T::bits >= 32) return word;
    else return word >> (T::bits * static_cast<unsigned>(j)) & ((1u << T::bits) - 1);
}

struct Position {
    int row, column;
};

// A 16-row tile of mma.sync's A below the other, or 8-column tiles of its B one after the other.
template <int k, int e>
Position in_tall(int lane, int x) {
    int tile = x / (k / 2), r = x % (k / 2) / e;
    return {16 * tile + (lane >> 2) + 8 * (r & 1), e * (lane & 3) + x % e + 4 * e * (r >> 1)};
}
template <int k, int e>
Position in_narrow(int lane, int x) {
    int tile = x / (k / 4), r = x % (k / 4) / e;
    return {e * (lane & 3) + x % e + 4 * e * r, 8 * tile + (lane >> 2)};
}
inline Position turned(Position p) { return {p.column, p.row}; }

// 8 rows of A are worked out as the columns of a product turned over its diagonal.
template <int m, int k, int e>
Position in_a(int lane, int x) {
    if constexpr (m == 8) return turned(in_narrow<k, e>(lane, x));
    else return in_tall<k, e>(lane, x);
}
template <int m, int n, int k, int e>
Position in_b(int lane, int x) {
    if constexpr (m == 8 && n == 32) return turned(in_tall<k, e>(lane, x));
    else return in_narrow<k, e>(lane, x);
}
template <int m, int n>
Position in_accumulator(int lane, int x) {
    Position p{(lane >> 2) + 8 * (x >> 1 & 1), 2 * (lane & 3) + (x & 1)};
    if constexpr (m == 16) return {p.row, p.column + 8 * (x >> 2)};
    Position tall{p.row + 16 * (x >> 2), p.column};
    if constexpr (n == 32) return turned(tall);
    return tall;
}

// Calls visit(lane, number, position) for every element of every lane.  Always inlined: g++ 12 without -fno-delete-null-pointer-checks takes
// calls of it for ones that change nothing.
template <auto position, int elements, class Visit>
__attribute__((always_inline)) inline void visit(Visit visit) {
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < elements / 32; ++x) visit(lane, x, position(lane, x));
}

// d = a b + c by Hopper's rule, `step` columns of A at a time.  a, b and c give the operand that a lane holds at a number; put takes the sum.
template <int m, int n, int k, int e, int step, class A, class B, class C, class Put>
void multiply_floats(A a, B b, C c, Put put) {
    FloatTile<m, step, n> tiles[k / step];
    visit<in_a<m, k, e>, m * k>([&](int lane, int x, Position at) { tiles[at.column / step].set_a(at.row, at.column % step, a(lane, x)); });
    visit<in_b<m, n, k, e>, n * k>([&](int lane, int x, Position at) { tiles[at.row / step].set_b(at.row % step, at.column, b(lane, x)); });
    visit<in_accumulator<m, n>, m * n>([&](int lane, int x, Position at) { tiles[0].set_c(at.row, at.column, c(lane, x)); });
    double sums[m][n];
    multiply(tiles[0], sums);
    for (int next = 1; next < k / step; ++next) {
        for (int row = 0; row < m; ++row)
            for (int column = 0; column < n; ++column) tiles[next].set_c(row, column, decode_float(cut_to_float(sums[row][column])));
        multiply(tiles[next], sums);
    }
    visit<in_accumulator<m, n>, m * n>([&](int lane, int x, Position at) { put(lane, x, sums[at.row][at.column]); });
}

// The sums of products alone.  Of 1-bit elements a whole register counts as one: the product is the number of ones.
template <int m, int n, int k, int e, class TypeA, class A, class B, class Put>
void multiply_integers(A a, B b, Put put) {
    int rows[m][k], columns[k][n], sums[m][n] = {};
    visit<in_a<m, k, e>, m * k>([&](int lane, int x, Position at) { rows[at.row][at.column] = a(lane, x); });
    visit<in_b<m, n, k, e>, n * k>([&](int lane, int x, Position at) { columns[at.row][at.column] = b(lane, x); });
    for (int row = 0; row < m; ++row)
        for (int inner = 0; inner < k; ++inner)
            for (int column = 0; column < n; ++column) {
                int left = rows[row][inner], right = columns[inner][column];
                if constexpr (std::is_same_v<TypeA, ptx::b1_xor>) sums[row][column] += __builtin_popcount(static_cast<unsigned>(left ^ right));
                else if constexpr (std::is_same_v<TypeA, ptx::b1_and>) sums[row][column] += __builtin_popcount(static_cast<unsigned>(left & right));
                else sums[row][column] += left * right;
            }
    visit<in_accumulator<m, n>, m * n>([&](int lane, int x, Position at) { put(lane, x, sums[at.row][at.column]); });
}

// Fused multiply-adds in the order of k.
template <int m, int k, class A, class B, class C, class Put>
void multiply_doubles(A a, B b, C c, Put put) {
    constexpr int n = columns;
    double rows[m][k], columns[k][n], sums[m][n];
    visit<in_a<m, k, 1>, m * k>([&](int lane, int x, Position at) { rows[at.row][at.column] = a(lane, x); });
    visit<in_b<m, n, k, 1>, n * k>([&](int lane, int x, Position at) { columns[at.row][at.column] = b(lane, x); });
    visit<in_accumulator<m, n>, m * n>([&](int lane, int x, Position at) { sums[at.row][at.column] = c(lane, x); });
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column)
            for (int inner = 0; inner < k; ++inner) sums[row][column] = fma(rows[row][inner], columns[inner][column], sums[row][column]);
    visit<in_accumulator<m, n>, m * n>([&](int lane, int x, Position at) { put(lane, x, sums[at.row][at.column]); });
}

}  // namespace emu
