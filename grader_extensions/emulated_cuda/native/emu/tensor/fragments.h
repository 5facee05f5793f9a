// Which element of which matrix a register of a lane holds in mma.sync (PTX ISA, "Matrix fragments for mma").
//
// One formula covers all shapes: with g = lane / 4, t = lane % 4, and e elements in a register, register r of A holds, for
// 0 <= j < e, row g + 8 (r & 1) and column e t + j + 4 e (r >> 1); register r of B holds row e t + j + 4 e r of column g.
// Where M is 8, the registers of A go along the columns only.
#pragma once

#include "types.h"

namespace emu EMU_HIDDEN {

template <class T>
inline constexpr int per_register = T::bits >= 32 ? 1 : 32 / static_cast<int>(T::bits);

template <int M, int K, int e>
inline constexpr int registers_of_a = M == 16 ? K / (2 * e) : K / (4 * e);
template <int K, int e>
inline constexpr int registers_of_b = K / (4 * e);
template <int M>
inline constexpr int elements_of_c = M / 4;

// These are always inlined: g++ 12 without -fno-delete-null-pointer-checks takes calls of them for ones that change nothing.

// Calls visit(lane, register, row, first column) for every register of A.
template <int M, int K, int e, class Visit>
__attribute__((always_inline)) inline void visit_a(Visit visit) {
    for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < registers_of_a<M, K, e>; ++r) {
            int down = M == 16 ? r & 1 : 0, along = M == 16 ? r >> 1 : r;
            visit(lane, r, (lane >> 2) + 8 * down, e * (lane & 3) + 4 * e * along);
        }
}

// Calls visit(lane, register, first row, column) for every register of B.
template <int K, int e, class Visit>
__attribute__((always_inline)) inline void visit_b(Visit visit) {
    for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < registers_of_b<K, e>; ++r) visit(lane, r, e * (lane & 3) + 4 * e * r, lane >> 2);
}

// Calls visit(lane, element, row, column) for every element of C and D.
template <int M, class Visit>
__attribute__((always_inline)) inline void visit_c(Visit visit) {
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < elements_of_c<M>; ++i) visit(lane, i, (lane >> 2) + 8 * (i >> 1), 2 * (lane & 3) + (i & 1));
}

// Element j of a register, as the low bits.
template <class T>
uint32_t field(uint32_t word, int j) {
    if constexpr (T::bits >= 32) return word;
    else return word >> (T::bits * static_cast<unsigned>(j)) & ((1u << T::bits) - 1);
}

}  // namespace emu
