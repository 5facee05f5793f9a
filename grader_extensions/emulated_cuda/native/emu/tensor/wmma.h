// nvcuda::wmma, with the arithmetic of mma.sync.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "arithmetic.h"
#include "../intrinsics.h"
#include "../warp_registers.h"

// nvcuda::wmma's fragments: which exist, and how many elements they have.
namespace nvcuda::wmma {

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

}  // namespace nvcuda::wmma

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
constexpr int places(int elements) { return std::is_same_v<T, __half> ? 16 : different(elements); }
template <class T>
constexpr int words(int elements) { return is_packed<T> ? 1 : places<T>(elements); }
template <class T>
using Deduced = typename std::enable_if<true, T>::type;  // from another parameter

}  // namespace wmma
}  // namespace emu

namespace nvcuda::wmma {

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

}  // namespace nvcuda::wmma

// nvcuda::wmma's loads and stores.
namespace emu EMU_HIDDEN {
namespace wmma {

template <class Fragment, class Pointer>
struct MemoryOperands {
    Fragment* fragment;
    Pointer memory;
    unsigned leading;
};

// Has work(lane, its fragment) done for every lane.  `bits` are those of an element in memory; `along` elements follow each other there.
template <class Fragment, class Pointer, class Work>
void move_fragments(Fragment& fragment, Pointer memory, unsigned leading, unsigned bits, int along, const char* instruction, Work work) {
    char sentence[128];
    if (uint64_t{leading} * bits % 128 != 0) {
        snprintf(sentence, sizeof sentence, "the leading dimension is %u elements; it must be a multiple of %u (16 bytes)", leading, 128 / bits);
        trap_at(instruction, sentence);
    }
    // 32 bytes, as documented; less where a row of the tile is shorter than that.  Shared arrays get 16 here.
    unsigned row_bytes = static_cast<unsigned>(along) * bits / 8, alignment = row_bytes < 32 ? row_bytes : 32;
    if (alignment > 16 && worker->shared_window().contains(memory)) alignment = 16;
    if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
        snprintf(sentence, sizeof sentence, "the pointer must be a multiple of %u bytes", alignment);
        trap_at(instruction, sentence);
    }
    MemoryOperands<Fragment, Pointer> own{&fragment, memory, leading};
    for_whole_warp(own, instruction, [=](const PerLane<MemoryOperands<Fragment, Pointer>>& lanes) {
        for (unsigned lane = 1; lane < 32; ++lane)
            if (lanes[lane].memory != lanes[0].memory || lanes[lane].leading != lanes[0].leading)
                trap_at(instruction, "the pointer and the leading dimension must be the same in all threads of the warp");
        for (int lane = 0; lane < 32; ++lane) work(lane, *lanes[lane].fragment);
    });
}

inline size_t offset_of(Position at, unsigned leading, bool row_major) {
    return row_major ? size_t{leading} * static_cast<unsigned>(at.row) + static_cast<unsigned>(at.column)
                     : size_t{leading} * static_cast<unsigned>(at.column) + static_cast<unsigned>(at.row);
}

template <class T>
inline constexpr int per_word = per_register<typename Element<T>::Type>;

template <class Fragment, class T, class Place>
void load(Fragment& fragment, const T* memory, unsigned leading, bool row_major, int along, int count, Place place) {
    move_fragments(fragment, memory, leading, sizeof(T) * 8, along, "wmma::load_matrix_sync", [=](int lane, Fragment& own) {
        for (int x = 0; x < Fragment::num_elements; ++x) own.x[x] = memory[offset_of(place(lane, x % count), leading, row_major)];
    });
}

// 4- and 1-bit elements: whole words, along the memory of either matrix.
template <class Fragment>
void load_packed(Fragment& fragment, const void* memory, unsigned leading, unsigned bits) {
    move_fragments(fragment, memory, leading, bits, static_cast<int>(128 / bits), "wmma::load_matrix_sync", [=](int lane, Fragment& own) {
        memcpy(own.x, static_cast<const char*>(memory) + (size_t{leading} * static_cast<unsigned>(lane >> 2) * bits / 8 + (lane & 3) * 4), 4);
    });
}

template <class Fragment, class T, class Place>
void store(T* memory, const Fragment& fragment, unsigned leading, bool row_major, int along, Place place) {
    move_fragments(fragment, memory, leading, sizeof(T) * 8, along, "wmma::store_matrix_sync", [=](int lane, const Fragment& own) {
        for (int x = 0; x < Fragment::num_elements; ++x) memory[offset_of(place(lane, x), leading, row_major)] = own.x[x];
    });
}

}  // namespace wmma
}  // namespace emu

namespace nvcuda::wmma {

template <int m, int n, int k, class T, class Layout>
    requires(!emu::wmma::is_packed<T>)
void load_matrix_sync(fragment<matrix_a, m, n, k, T, Layout>& a, const typename emu::wmma::Element<T>::Memory* p, unsigned ldm) {
    constexpr bool rows = std::is_same_v<Layout, row_major>;
    emu::wmma::load(a, p, ldm, rows, rows ? k : m, emu::wmma::different(m * k), &emu::in_a<m, k, emu::wmma::per_word<T>>);
}
template <int m, int n, int k, class T, class Layout>
    requires(!emu::wmma::is_packed<T>)
void load_matrix_sync(fragment<matrix_b, m, n, k, T, Layout>& b, const typename emu::wmma::Element<T>::Memory* p, unsigned ldm) {
    constexpr bool rows = std::is_same_v<Layout, row_major>;
    emu::wmma::load(b, p, ldm, rows, rows ? n : k, emu::wmma::different(n * k), &emu::in_b<m, n, k, emu::wmma::per_word<T>>);
}
template <class Use, int m, int n, int k, class T, class Layout>
    requires(emu::wmma::is_packed<T>)
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& a, const void* p, unsigned ldm) {
    emu::wmma::load_packed(a, p, ldm, emu::wmma::Element<T>::Type::bits);
}
template <int m, int n, int k, class T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& c, const emu::wmma::Deduced<T>* p, unsigned ldm, layout_t layout) {
    bool rows = layout == mem_row_major;
    emu::wmma::load(c, p, ldm, rows, rows ? n : m, m * n / 32, &emu::in_accumulator<m, n>);
}
template <int m, int n, int k, class T>
void store_matrix_sync(emu::wmma::Deduced<T>* p, const fragment<accumulator, m, n, k, T>& c, unsigned ldm, layout_t layout) {
    bool rows = layout == mem_row_major;
    emu::wmma::store(p, c, ldm, rows, rows ? n : m, &emu::in_accumulator<m, n>);
}

}  // namespace nvcuda::wmma

namespace emu EMU_HIDDEN {
namespace wmma {

template <class A, class B, class C, class D>
struct ProductOperands {
    D* d;
    const A* a;
    const B* b;
    const C* c;
};
template <class A, class B, class C, class D>
ProductOperands(D*, const A*, const B*, const C*) -> ProductOperands<A, B, C, D>;

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

// Of packed elements a fragment's only word holds those of one row of A or one column of B.
template <class T>
int integer_element(const typename Element<T>::Storage* x, int index) {
    if constexpr (!is_packed<T>) return x[index];
    else return decode_integer<typename Element<T>::Type>(field<typename Element<T>::Type>(static_cast<uint32_t>(*x), index));
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

namespace nvcuda::wmma {

// `satf` is for integers only, as in CUDA's own header.
template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D, class... Saturate>
    requires(emu::wmma::multiplies<T, C, D>() && sizeof...(Saturate) <= emu::wmma::multiplies_integers<T>)
void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a, const fragment<matrix_b, m, n, k, T, LayoutB>& b,
              const fragment<accumulator, m, n, k, C>& c, Saturate... satf) {
    emu::wmma::ProductOperands own{&d, &a, &b, &c};
    bool saturate = (false || ... || static_cast<bool>(satf));
    emu::for_whole_warp(own, "wmma::mma_sync", [saturate](const auto& lanes) {
        using namespace emu::wmma;
        if constexpr (std::is_same_v<T, double>) {
            emu::multiply_doubles<m, k>([&](int lane, int x) { return lanes[lane].a->x[x]; }, [&](int lane, int x) { return lanes[lane].b->x[x]; },
                                        [&](int lane, int x) { return lanes[lane].c->x[x]; },
                                        [&](int lane, int x, double sum) { lanes[lane].d->x[x] = sum; });
        } else if constexpr (multiplies_integers<T>) {
            emu::multiply_integers<m, n, k, per_word<T>, T>(
                [&](int lane, int x) { return integer_element<T>(lanes[lane].a->x, x); },
                [&](int lane, int x) { return integer_element<T>(lanes[lane].b->x, x); },
                [&](int lane, int x, int sum) { lanes[lane].d->x[x] = static_cast<int>(emu::add_integers(lanes[lane].c->x[x], sum, saturate)); });
        } else {
            // ptxas for sm_90 makes two products of tf32, each of half the columns of A, where k is 8 (read from its code).
            emu::multiply_floats<m, n, k, per_word<T>, std::is_same_v<T, precision::tf32> ? 4 : k>(
                [&](int lane, int x) { return input_operand<T>(lanes[lane].a->x[x]); },
                [&](int lane, int x) { return input_operand<T>(lanes[lane].b->x[x]); },
                [&](int lane, int x) {  // a half that is added to sums of float has been made a float before
                    return operand(static_cast<std::conditional_t<std::is_same_v<D, float>, float, C>>(lanes[lane].c->x[x]));
                },
                [&](int lane, int x, double sum) { finish<C>(lanes[lane].d->x[x], sum); });
        }
    });
}

inline void bmma_sync(fragment<accumulator, 8, 8, 128, int>& d, const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major>& a,
                      const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major>& b, const fragment<accumulator, 8, 8, 128, int>& c,
                      experimental::bmmaBitOp operation = experimental::bmmaBitOpXOR,
                      experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC) {
    emu::wmma::ProductOperands own{&d, &a, &b, &c};
    bool both = operation == experimental::bmmaBitOpAND;
    emu::for_whole_warp(own, "wmma::bmma_sync", [both](const auto& lanes) {
        auto a = [&](int lane, int x) { return static_cast<int>(lanes[lane].a->x[x]); };
        auto b = [&](int lane, int x) { return static_cast<int>(lanes[lane].b->x[x]); };
        auto put = [&](int lane, int x, int sum) { lanes[lane].d->x[x] = static_cast<int>(emu::add_integers(lanes[lane].c->x[x], sum, false)); };
        if (both) emu::multiply_integers<8, 8, 4, 1, emu::ptx::b1_and>(a, b, put);
        else emu::multiply_integers<8, 8, 4, 1, emu::ptx::b1_xor>(a, b, put);
    });
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

}  // namespace nvcuda::wmma
