// Which element of which matrix a lane holds in mma.sync and nvcuda::wmma (PTX ISA, "Matrix fragments for mma"), and the products of those.
//
// One formula covers all shapes of mma.sync: with g = lane / 4, t = lane % 4, and e elements in a register, register r of A holds, for
// 0 <= j < e, row g + 8 (r & 1) and column e t + j + 4 e (r >> 1); register r of B holds row e t + j + 4 e r of column g.
// Where M is 8, the registers of A go along the columns only.  wmma's mapping is not documented; this is what sm_80 and later do.
#pragma once

#include "arithmetic.h"

namespace emu EMU_HIDDEN {

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
