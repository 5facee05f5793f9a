// mma.sync: the registers of 32 lanes as tiles, and the tiles' product back into registers.
#pragma once

#include <type_traits>

#include "../warp_registers.h"
#include "arithmetic.h"

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
    multiply_floats<M, columns, K, e, K>(
        [&](int lane, int x) { return decode_operand<A>(field<A>(lanes[lane].a[x / e], x % e)); },
        [&](int lane, int x) { return decode_operand<B>(field<B>(lanes[lane].b[x / e], x % e)); },
        [&](int lane, int x) { return decode_operand<C>(accumulator_bits<C>(lanes[lane].c, x)); },
        [&](int lane, int x, double sum) { set_accumulator<D>(lanes[lane].d, x, sum); });
}

template <class T>
Operand decode_fp8(uint32_t code) { return decode_half(std::is_same_v<T, ptx::e4m3> ? e4m3_to_half(code) : e5m2_to_half(code)); }

// ptxas for sm_90 makes halves of fp8, and two products: of the elements in the low halves of the registers and, added to
// it, of those in the high halves.  C is added last, with an addition of its own (read from the code for the instruction).
template <int M, int K, class A, class B, class D>
void mma_fp8(const PerLane<MmaOperands<uint32_t>>& lanes) {
    constexpr bool half = std::is_same_v<D, ptx::f16>;
    constexpr int elements = M * columns / 32;
    double sums[32][elements] = {};
    for (int first = 0; first < 4; first += 2)
        multiply_floats<M, columns, K / 2, 2, K / 2>(
            [&](int lane, int x) { return decode_fp8<A>(field<A>(lanes[lane].a[x / 2], first + x % 2)); },
            [&](int lane, int x) { return decode_fp8<B>(field<B>(lanes[lane].b[x / 2], first + x % 2)); },
            [&](int lane, int x) { return half ? decode_half(round_to_half(sums[lane][x])) : decode_float(cut_to_float(sums[lane][x])); },
            [&](int lane, int x, double sum) { sums[lane][x] = sum; });
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < elements; ++x) {
            uint32_t c = accumulator_bits<D>(lanes[lane].c, x);
            if constexpr (half) {
                set_accumulator<D>(lanes[lane].d, x, decode_half(round_to_half(sums[lane][x])).value + decode_half(c).value);
            } else {
                float sum = bit_cast<float>(cut_to_float(sums[lane][x])) + bit_cast<float>(c);
                lanes[lane].d[x] = sum != sum ? float_nan : bit_cast<uint32_t>(sum);
            }
        }
}

template <class T>
int integer_field(uint32_t word, int j) {
    if constexpr (is_one_bit<T>) return static_cast<int>(word);
    else return decode_integer<T>(field<T>(word, j));
}

template <int M, int K, class A, class B, bool Saturate>
void mma_integer(const PerLane<MmaOperands<uint32_t>>& lanes) {
    constexpr int e = is_one_bit<A> ? 1 : per_register<A>, length = is_one_bit<A> ? K / 32 : K;
    multiply_integers<M, columns, length, e, A>(
        [&](int lane, int x) { return integer_field<A>(lanes[lane].a[x / e], x % e); },
        [&](int lane, int x) { return integer_field<B>(lanes[lane].b[x / e], x % e); },
        [&](int lane, int x, int sum) { lanes[lane].d[x] = add_integers(static_cast<int32_t>(lanes[lane].c[x]), sum, Saturate); });
}

template <int M, int K>
void mma_double(const PerLane<MmaOperands<uint64_t>>& lanes) {
    multiply_doubles<M, K>([&](int lane, int x) { return bit_cast<double>(lanes[lane].a[x]); },
                           [&](int lane, int x) { return bit_cast<double>(lanes[lane].b[x]); },
                           [&](int lane, int x) { return bit_cast<double>(lanes[lane].c[x]); },
                           [&](int lane, int x, double sum) { lanes[lane].d[x] = bit_cast<uint64_t>(sum); });
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
