// nvcuda::wmma's products, with the arithmetic of mma.sync.
#pragma once

#include "arithmetic.h"
#include "wmma_memory.h"

namespace emu EMU_HIDDEN {
namespace wmma {

template <class A, class B, class C, class D>
struct ProductOperands {
    D* d;
    const A* a;
    const B* b;
    const C* c;
};

inline Operand operand(__half x) { return decode_half(x.__x); }
inline Operand operand(__nv_bfloat16 x) { return decode_float(uint32_t{x.__x} << 16); }
inline Operand operand(float x) { return decode_float(bit_cast<uint32_t>(x)); }
template <class T>
Operand input_operand(typename Element<T>::Storage x) {
    if constexpr (std::is_same_v<T, precision::tf32>) return decode_operand<ptx::tf32>(bit_cast<uint32_t>(x));
    else return operand(x);
}

// Sums of half are rounded once where C is half as well; else they are those of float, and then rounded.
template <class C, class D>
void finish(D& d, double sum) {
    if constexpr (std::is_same_v<D, float>) d = bit_cast<float>(cut_to_float(sum));
    else if constexpr (std::is_same_v<C, __half>) d.__x = round_to_half(sum);
    else d.__x = HalfFormat::from_float(bit_cast<float>(cut_to_float(sum)));
}

template <int m, int n, int k, class T, class C, class D, class Operands>
void multiply_floats(const PerLane<Operands>& lanes) {
    constexpr int e = per_word<T>;
    // ptxas for sm_90 makes two products of tf32, each of half the columns of A, where k is 8 (read from its code).
    constexpr int step = std::is_same_v<T, precision::tf32> ? 4 : k;
    FloatTile<m, step, n> tiles[k / step];
    for (int lane = 0; lane < 32; ++lane) {
        for (int x = 0; x < different(m * k); ++x) {
            Position at = in_a<m, k, e>(lane, x);
            tiles[at.column / step].set_a(at.row, at.column % step, input_operand<T>(lanes[lane].a->x[x]));
        }
        for (int x = 0; x < different(n * k); ++x) {
            Position at = in_b<m, n, k, e>(lane, x);
            tiles[at.row / step].set_b(at.row % step, at.column, input_operand<T>(lanes[lane].b->x[x]));
        }
        for (int x = 0; x < m * n / 32; ++x) {
            Position at = in_accumulator<m, n>(lane, x);
            // A half that is added to sums of float has been made a float before.
            if constexpr (std::is_same_v<D, float>) tiles[0].set_c(at.row, at.column, operand(static_cast<float>(lanes[lane].c->x[x])));
            else tiles[0].set_c(at.row, at.column, operand(lanes[lane].c->x[x]));
        }
    }
    double sums[m][n];
    multiply(tiles[0], sums);
    for (int next = 1; next < k / step; ++next) {
        for (int row = 0; row < m; ++row)
            for (int column = 0; column < n; ++column) tiles[next].set_c(row, column, decode_float(cut_to_float(sums[row][column])));
        multiply(tiles[next], sums);
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < m * n / 32; ++x) {
            Position at = in_accumulator<m, n>(lane, x);
            finish<C>(lanes[lane].d->x[x], sums[at.row][at.column]);
        }
}

// Of packed elements a fragment's only word holds those of one row of A or one column of B.
template <class T>
int integer_element(const typename Element<T>::Storage* x, int index) {
    if constexpr (!is_packed<T>) return x[index];
    else return decode_integer<typename Element<T>::Type>(field<typename Element<T>::Type>(static_cast<uint32_t>(*x), index));
}

template <int m, int n, int k, class T, class Operands>
void multiply_integers(const PerLane<Operands>& lanes, bool saturate) {
    constexpr int e = per_word<T>;
    int a[m][k], b[k][n], sums[m][n] = {};
    for (int lane = 0; lane < 32; ++lane) {
        for (int x = 0; x < different(m * k); ++x) {
            Position at = in_a<m, k, e>(lane, x);
            a[at.row][at.column] = integer_element<T>(lanes[lane].a->x, x);
        }
        for (int x = 0; x < different(n * k); ++x) {
            Position at = in_b<m, n, k, e>(lane, x);
            b[at.row][at.column] = integer_element<T>(lanes[lane].b->x, x);
        }
    }
    for (int row = 0; row < m; ++row)
        for (int inner = 0; inner < k; ++inner)
            for (int column = 0; column < n; ++column) sums[row][column] += a[row][inner] * b[inner][column];
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < m * n / 32; ++x) {
            Position at = in_accumulator<m, n>(lane, x);
            lanes[lane].d->x[x] = static_cast<int>(add_integers(lanes[lane].c->x[x], sums[at.row][at.column], saturate));
        }
}

template <class Operands>
void multiply_doubles(const PerLane<Operands>& lanes) {
    double sums[32][2];
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < 2; ++x) {
            Position at = in_accumulator<8, 8>(lane, x);
            double sum = lanes[lane].c->x[x];
            for (int inner = 0; inner < 4; ++inner) sum = fma(lanes[at.row * 4 + inner].a->x[0], lanes[at.column * 4 + inner].b->x[0], sum);
            sums[lane][x] = sum;
        }
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < 2; ++x) lanes[lane].d->x[x] = sums[lane][x];
}

template <class Operands>
void multiply_bits(const PerLane<Operands>& lanes, bool both) {
    int sums[32][2];
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < 2; ++x) {
            Position at = in_accumulator<8, 8>(lane, x);
            sums[lane][x] = 0;
            for (int word = 0; word < 4; ++word) {
                uint32_t a = lanes[at.row * 4 + word].a->x[0], b = lanes[at.column * 4 + word].b->x[0];
                sums[lane][x] += __builtin_popcount(both ? a & b : a ^ b);
            }
        }
    for (int lane = 0; lane < 32; ++lane)
        for (int x = 0; x < 2; ++x) lanes[lane].d->x[x] = static_cast<int>(add_integers(lanes[lane].c->x[x], sums[lane][x], false));
}

template <class T>
inline constexpr bool multiplies_integers = std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char> || std::is_same_v<T, experimental::precision::s4> ||
                                            std::is_same_v<T, experimental::precision::u4>;
template <class T, class C, class D>
constexpr bool multiplies() {
    constexpr bool halves = std::is_same_v<C, __half> || std::is_same_v<D, __half>;
    if constexpr (std::is_same_v<T, __half>) return !std::is_same_v<C, int> && !std::is_same_v<D, int>;
    else if constexpr (std::is_same_v<T, double>) return true;
    else return !halves && !std::is_same_v<T, experimental::precision::b1> && std::is_same_v<C, D> && std::is_same_v<C, int> == multiplies_integers<T>;
}

}  // namespace wmma
}  // namespace emu

namespace nvcuda {
namespace wmma {

// `satf` is for integers only, as in CUDA's own header.
template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D, class... Saturate>
    requires(emu::wmma::multiplies<T, C, D>() && sizeof...(Saturate) <= emu::wmma::multiplies_integers<T>)
void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a, const fragment<matrix_b, m, n, k, T, LayoutB>& b,
              const fragment<accumulator, m, n, k, C>& c, Saturate... satf) {
    using Operands = emu::wmma::ProductOperands<fragment<matrix_a, m, n, k, T, LayoutA>, fragment<matrix_b, m, n, k, T, LayoutB>,
                                                fragment<accumulator, m, n, k, C>, fragment<accumulator, m, n, k, D>>;
    Operands own{&d, &a, &b, &c};
    bool saturate = (false || ... || static_cast<bool>(satf));
    emu::for_whole_warp(own, "wmma::mma_sync", [saturate](const emu::PerLane<Operands>& lanes) {
        if constexpr (std::is_same_v<T, double>) emu::wmma::multiply_doubles(lanes);
        else if constexpr (emu::wmma::multiplies_integers<T>) emu::wmma::multiply_integers<m, n, k, T>(lanes, saturate);
        else emu::wmma::multiply_floats<m, n, k, T, C, D>(lanes);
    });
}

inline void bmma_sync(fragment<accumulator, 8, 8, 128, int>& d, const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major>& a,
                      const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major>& b, const fragment<accumulator, 8, 8, 128, int>& c,
                      experimental::bmmaBitOp operation = experimental::bmmaBitOpXOR,
                      experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC) {
    using Operands = emu::wmma::ProductOperands<fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major>,
                                                fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major>,
                                                fragment<accumulator, 8, 8, 128, int>, fragment<accumulator, 8, 8, 128, int>>;
    Operands own{&d, &a, &b, &c};
    bool both = operation == experimental::bmmaBitOpAND;
    emu::for_whole_warp(own, "wmma::bmma_sync", [both](const emu::PerLane<Operands>& lanes) { emu::wmma::multiply_bits(lanes, both); });
}

template <class T, int size, int packed_size>
void fill_fragment(__frag_base<T, size, packed_size>& f, const typename helper_traits<T>::fill_argument_type& in) {
    auto value = in;
    if constexpr (std::is_same_v<T, experimental::precision::b1>) value = in & 1 ? ~0u : 0u;
    else if constexpr (emu::wmma::is_packed<T>) value = static_cast<decltype(value)>((static_cast<unsigned>(in) & 0xfu) * 0x11111111u);
    for (auto& x : f.x) x = value;
}

// To the nearest, ties away from zero (cvt.rna.tf32.f32).
inline float __float_to_tf32(float in) {
    uint32_t bits = emu::bit_cast<uint32_t>(in);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return emu::bit_cast<float>(emu::float_nan);
    if ((bits & 0x7f800000u) == 0x7f800000u) return in;
    return emu::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

}  // namespace wmma
}  // namespace nvcuda
