// mma.sync: the registers of 32 lanes as tiles, and the tiles' product back into registers.
#pragma once

#include <type_traits>

#include "../warp_registers.h"
#include "arithmetic.h"
#include "fragments.h"

namespace emu EMU_HIDDEN {

template <class T>
inline constexpr bool is_fp8 = std::is_same_v<T, ptx::e4m3> || std::is_same_v<T, ptx::e5m2>;
template <class T>
inline constexpr bool is_one_bit = std::is_same_v<T, ptx::b1_xor> || std::is_same_v<T, ptx::b1_and>;
template <class T>
inline constexpr bool is_integer = std::is_same_v<T, ptx::s8> || std::is_same_v<T, ptx::u8> || std::is_same_v<T, ptx::s4> || std::is_same_v<T, ptx::u4>;

template <class Register>
struct MmaOperands {
    Register* d;
    const Register *a, *b, *c;
};

// C and D are two halves a register, or one element a register.
template <class T>
uint32_t accumulator_bits(const uint32_t* c, int i) {
    if constexpr (std::is_same_v<T, ptx::f16>) return c[i >> 1] >> 16 * (i & 1) & 0xffffu;
    else return c[i];
}
template <class T>
void set_accumulator(uint32_t* d, int i, double sum) {
    if constexpr (std::is_same_v<T, ptx::f16>) {
        uint32_t half = round_to_half(sum);
        d[i >> 1] = i & 1 ? (d[i >> 1] & 0xffffu) | half << 16 : half;
    } else {
        d[i] = cut_to_float(sum);
    }
}

template <int M, int K, class A, class B, class C, class D>
void mma_float(const PerLane<MmaOperands<uint32_t>>& lanes) {
    constexpr int e = per_register<A>;
    FloatTile<M, K> tile;
    visit_a<M, K, e>([&](int lane, int r, int row, int column) {
        for (int j = 0; j < e; ++j) tile.set_a(row, column + j, decode_operand<A>(field<A>(lanes[lane].a[r], j)));
    });
    visit_b<K, e>([&](int lane, int r, int row, int column) {
        for (int j = 0; j < e; ++j) tile.set_b(row + j, column, decode_operand<B>(field<B>(lanes[lane].b[r], j)));
    });
    visit_c<M>([&](int lane, int i, int row, int column) { tile.set_c(row, column, decode_operand<C>(accumulator_bits<C>(lanes[lane].c, i))); });
    double sums[M][columns];
    multiply(tile, sums);
    visit_c<M>([&](int lane, int i, int row, int column) { set_accumulator<D>(lanes[lane].d, i, sums[row][column]); });
}

template <class T>
Operand decode_fp8(uint32_t code) { return decode_half(std::is_same_v<T, ptx::e4m3> ? e4m3_to_half(code) : e5m2_to_half(code)); }

// ptxas for sm_90 makes halves of fp8, and two products: of the elements in the low halves of the registers and, added to
// it, of those in the high halves.  C is added last, with an addition of its own (read from the code for the instruction).
template <int M, int K, class A, class B, class D>
void mma_fp8(const PerLane<MmaOperands<uint32_t>>& lanes) {
    constexpr int e = 4, half_k = K / 2;
    double sums[M][columns] = {};
    for (int first = 0; first < e; first += 2) {
        FloatTile<M, half_k> tile;
        visit_a<M, K, e>([&](int lane, int r, int row, int column) {
            for (int j = 0; j < 2; ++j) tile.set_a(row, column / 2 + j, decode_fp8<A>(field<A>(lanes[lane].a[r], first + j)));
        });
        visit_b<K, e>([&](int lane, int r, int row, int column) {
            for (int j = 0; j < 2; ++j) tile.set_b(row / 2 + j, column, decode_fp8<B>(field<B>(lanes[lane].b[r], first + j)));
        });
        for (int row = 0; row < M; ++row)
            for (int n = 0; n < columns; ++n) {
                bool half = std::is_same_v<D, ptx::f16>;
                tile.set_c(row, n, half ? decode_half(round_to_half(sums[row][n])) : decode_float(cut_to_float(sums[row][n])));
            }
        multiply(tile, sums);
    }
    visit_c<M>([&](int lane, int i, int row, int column) {
        uint32_t c = accumulator_bits<D>(lanes[lane].c, i);
        if constexpr (std::is_same_v<D, ptx::f16>) {
            double sum = decode_half(round_to_half(sums[row][column])).value + decode_half(c).value;
            set_accumulator<D>(lanes[lane].d, i, sum);
        } else {
            float sum = bit_cast<float>(cut_to_float(sums[row][column])) + bit_cast<float>(c);
            lanes[lane].d[i] = sum != sum ? float_nan : bit_cast<uint32_t>(sum);
        }
    });
}

// Of 1-bit elements a whole register counts as one: the product is the number of ones.
template <class A, class B>
int multiply_fields(int a, int b) {
    if constexpr (std::is_same_v<A, ptx::b1_xor>) return __builtin_popcount(static_cast<unsigned>(a ^ b));
    else if constexpr (std::is_same_v<A, ptx::b1_and>) return __builtin_popcount(static_cast<unsigned>(a & b));
    else return a * b;
}
template <class T>
int integer_field(uint32_t word, int j) {
    if constexpr (is_one_bit<T>) return static_cast<int>(word);
    else return decode_integer<T>(field<T>(word, j));
}

template <int M, int K, class A, class B, bool Saturate>
void mma_integer(const PerLane<MmaOperands<uint32_t>>& lanes) {
    constexpr int e = is_one_bit<A> ? 1 : per_register<A>, length = is_one_bit<A> ? K / 32 : K;
    int a[M][length], b[length][columns], sums[M][columns] = {};
    visit_a<M, length, e>([&](int lane, int r, int row, int column) {
        for (int j = 0; j < e; ++j) a[row][column + j] = integer_field<A>(lanes[lane].a[r], j);
    });
    visit_b<length, e>([&](int lane, int r, int row, int column) {
        for (int j = 0; j < e; ++j) b[row + j][column] = integer_field<B>(lanes[lane].b[r], j);
    });
    for (int row = 0; row < M; ++row)
        for (int k = 0; k < length; ++k)
            for (int n = 0; n < columns; ++n) sums[row][n] += multiply_fields<A, B>(a[row][k], b[k][n]);
    visit_c<M>([&](int lane, int i, int row, int column) {
        lanes[lane].d[i] = add_integers(static_cast<int32_t>(lanes[lane].c[i]), sums[row][column], Saturate);
    });
}

// Fused multiply-adds in the order of k.
template <int M, int K>
void mma_double(const PerLane<MmaOperands<uint64_t>>& lanes) {
    double a[M][K], b[K][columns], sums[M][columns];
    visit_a<M, K, 1>([&](int lane, int r, int row, int column) { a[row][column] = bit_cast<double>(lanes[lane].a[r]); });
    visit_b<K, 1>([&](int lane, int r, int row, int column) { b[row][column] = bit_cast<double>(lanes[lane].b[r]); });
    visit_c<M>([&](int lane, int i, int row, int column) { sums[row][column] = bit_cast<double>(lanes[lane].c[i]); });
    for (int row = 0; row < M; ++row)
        for (int n = 0; n < columns; ++n)
            for (int k = 0; k < K; ++k) sums[row][n] = fma(a[row][k], b[k][n], sums[row][n]);
    visit_c<M>([&](int lane, int i, int row, int column) { lanes[lane].d[i] = bit_cast<uint64_t>(sums[row][column]); });
}

namespace ptx {

// d = a * b + c.  The arrays are this lane's registers, in the order of the instruction; d may be one of the others.
template <int M, int N, int K, class A, class B, class C, class D, bool Saturate = false>
void mma(uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c) {
    static_assert(N == columns && (M == 16 || M == 8), "mma.sync: no such shape");
    MmaOperands<uint32_t> own{d, a, b, c};
    for_whole_warp(own, "mma.sync", [](const PerLane<MmaOperands<uint32_t>>& lanes) {
        if constexpr (is_fp8<A>) mma_fp8<M, K, A, B, D>(lanes);
        else if constexpr (is_integer<A> || is_one_bit<A>) mma_integer<M, K, A, B, Saturate>(lanes);
        else mma_float<M, K, A, B, C, D>(lanes);
    });
}

template <int M, int N, int K, class A, class B, class C, class D, bool Saturate = false>
void mma(uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c) {
    static_assert(N == columns && std::is_same_v<A, f64>, "mma.sync: no such shape");
    MmaOperands<uint64_t> own{d, a, b, c};
    for_whole_warp(own, "mma.sync", [](const PerLane<MmaOperands<uint64_t>>& lanes) { mma_double<M, K>(lanes); });
}

}  // namespace ptx
}  // namespace emu
