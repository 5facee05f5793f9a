// nvcuda::wmma's fragments: which exist, how many elements they have, and which element of its matrix each of them is.
//
// The mapping is not documented; this is what sm_80 and later do.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "fragments.h"

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
namespace precision {
struct tf32;
}
namespace experimental {
namespace precision {
struct u4;
struct s4;
struct b1;
}  // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}  // namespace experimental
enum layout_t { mem_row_major, mem_col_major };

}  // namespace wmma
}  // namespace nvcuda

namespace emu EMU_HIDDEN {
namespace wmma {

using namespace nvcuda::wmma;

// How an element is stored, what may be in memory, and its type as mma.sync calls it.
template <class T>
struct Element {
    static constexpr bool is_input = false;
    using Storage = T;
    using Memory = T;
};
template <class T, class Tag, class M = T>
struct Input {
    static constexpr bool is_input = true;
    using Storage = T;
    using Memory = M;
    using Type = Tag;
};
template <> struct Element<__half> : Input<__half, ptx::f16> {};
template <> struct Element<__nv_bfloat16> : Input<__nv_bfloat16, ptx::bf16> {};
template <> struct Element<precision::tf32> : Input<float, ptx::tf32> {};
template <> struct Element<signed char> : Input<signed char, ptx::s8> {};
template <> struct Element<unsigned char> : Input<unsigned char, ptx::u8> {};
template <> struct Element<double> : Input<double, ptx::f64> {};
template <> struct Element<experimental::precision::s4> : Input<int, ptx::s4, void> {};
template <> struct Element<experimental::precision::u4> : Input<unsigned, ptx::u4, void> {};
template <> struct Element<experimental::precision::b1> : Input<unsigned, ptx::b1_xor, void> {};

template <class T>
inline constexpr bool is_packed = std::is_void_v<typename Element<T>::Memory>;

template <class T>
constexpr bool has_shape(int m, int n, int k) {
    if constexpr (std::is_same_v<T, double>) return m == 8 && n == 8 && k == 4;
    else if constexpr (std::is_same_v<T, precision::tf32>) return m == 16 && n == 16 && k == 8;
    else if constexpr (std::is_same_v<T, experimental::precision::b1>) return m == 8 && n == 8 && k == 128;
    else if constexpr (is_packed<T>) return m == 8 && n == 8 && k == 32;
    else if constexpr (Element<T>::is_input) return k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
    else return false;
}

template <class T>
constexpr bool accumulates(int m, int n, int k) {
    if constexpr (std::is_same_v<T, __half>) return has_shape<__half>(m, n, k);
    else if constexpr (std::is_same_v<T, float>) return has_shape<__half>(m, n, k) || has_shape<precision::tf32>(m, n, k);
    else if constexpr (std::is_same_v<T, double>) return has_shape<double>(m, n, k);
    else if constexpr (std::is_same_v<T, int>)
        return has_shape<signed char>(m, n, k) || has_shape<experimental::precision::s4>(m, n, k) || has_shape<experimental::precision::b1>(m, n, k);
    else return false;
}

template <class Layout>
inline constexpr bool is_layout = std::is_same_v<Layout, row_major> || std::is_same_v<Layout, col_major>;
// 4- and 1-bit matrices lie in memory along k only.
template <class T, class Layout, class Along>
inline constexpr bool has_layout = is_layout<Layout> && (!is_packed<T> || std::is_same_v<Layout, Along>);

// Different elements in a lane, of a matrix of that many in all.  Fragments of half have 16 places, and copies in the rest.
constexpr int different(int elements) { return elements / 32; }
template <class T>
constexpr int places(int elements) {
    return std::is_same_v<T, __half> ? 16 : different(elements);
}
template <class T>
constexpr int words(int elements) {
    return is_packed<T> ? 1 : places<T>(elements);
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

}  // namespace wmma
}  // namespace emu

namespace nvcuda {
namespace wmma {

template <class T>
struct helper_traits {
    using element_type = T;
    using storage_element_type = typename emu::wmma::Element<T>::Storage;
    using fill_argument_type = storage_element_type;
};

template <class T, int size, int packed_size = size>
struct __align__(8) __frag_base {
    enum { num_elements = size };
    enum { num_storage_elements = packed_size };
    using element_type = T;
    using storage_element_type = typename helper_traits<T>::storage_element_type;
    storage_element_type x[num_storage_elements];
};

// What is not defined below is an incomplete type, as with nvcc: a kernel with matrix_a of float does not compile.
template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment;

template <int m, int n, int k, class T, class Layout>
    requires(emu::wmma::has_shape<T>(m, n, k) && emu::wmma::has_layout<T, Layout, row_major>)
class fragment<matrix_a, m, n, k, T, Layout> : public __frag_base<T, emu::wmma::places<T>(m * k), emu::wmma::words<T>(m * k)> {};

template <int m, int n, int k, class T, class Layout>
    requires(emu::wmma::has_shape<T>(m, n, k) && emu::wmma::has_layout<T, Layout, col_major>)
class fragment<matrix_b, m, n, k, T, Layout> : public __frag_base<T, emu::wmma::places<T>(n * k), emu::wmma::words<T>(n * k)> {};

template <int m, int n, int k, class T>
    requires(emu::wmma::accumulates<T>(m, n, k))
class fragment<accumulator, m, n, k, T, void> : public __frag_base<T, m * n / 32> {};

}  // namespace wmma
}  // namespace nvcuda
