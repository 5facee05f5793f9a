// nvcuda::wmma's loads and stores.
#pragma once

#include "../shared.h"
#include "../warp_registers.h"
#include "wmma_fragment.h"

namespace emu EMU_HIDDEN {
namespace wmma {

template <class Fragment, class Pointer>
struct MemoryOperands {
    Fragment* fragment;
    Pointer memory;
    unsigned leading;
};

// `bits` are those of an element in memory; `along` elements follow each other there.
inline void check_memory(const void* memory, unsigned leading, unsigned bits, unsigned along, const char* instruction) {
    if (uint64_t{leading} * bits % 128 != 0) {
        char sentence[128];
        snprintf(sentence, sizeof sentence, "the leading dimension is %u elements; it must be a multiple of %u (16 bytes)", leading, 128 / bits);
        trap_at(instruction, sentence);
    }
    // 32 bytes, as documented; less where a row of the tile is shorter than that.  Shared arrays get 16 here.
    unsigned row_bytes = along * bits / 8, alignment = row_bytes < 32 ? row_bytes : 32;
    if (alignment > 16 && worker->shared_window().contains(memory)) alignment = 16;
    if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
        char sentence[128];
        snprintf(sentence, sizeof sentence, "the pointer must be a multiple of %u bytes", alignment);
        trap_at(instruction, sentence);
    }
}

template <class Operands>
void check_uniform(const PerLane<Operands>& lanes, const char* instruction) {
    for (unsigned lane = 1; lane < 32; ++lane)
        if (lanes[lane].memory != lanes[0].memory || lanes[lane].leading != lanes[0].leading)
            trap_at(instruction, "the pointer and the leading dimension must be the same in all threads of the warp");
}

inline size_t offset_of(Position at, unsigned leading, bool row_major) {
    return row_major ? size_t{leading} * static_cast<unsigned>(at.row) + static_cast<unsigned>(at.column)
                     : size_t{leading} * static_cast<unsigned>(at.column) + static_cast<unsigned>(at.row);
}

template <class T>
inline constexpr int per_word = per_register<typename Element<T>::Type>;

template <class Fragment, class T, class Place>
void load(Fragment& fragment, const T* memory, unsigned leading, bool row_major, int along, int count, Place place) {
    static constexpr const char* instruction = "wmma::load_matrix_sync";
    check_memory(memory, leading, sizeof(T) * 8, static_cast<unsigned>(along), instruction);
    MemoryOperands<Fragment, const T*> own{&fragment, memory, leading};
    for_whole_warp(own, instruction, [=](const PerLane<MemoryOperands<Fragment, const T*>>& lanes) {
        check_uniform(lanes, instruction);
        for (int lane = 0; lane < 32; ++lane)
            for (int x = 0; x < Fragment::num_elements; ++x) lanes[lane].fragment->x[x] = memory[offset_of(place(lane, x % count), leading, row_major)];
    });
}

// 4- and 1-bit elements: whole words, along the memory of either matrix.
template <class Fragment>
void load_packed(Fragment& fragment, const void* memory, unsigned leading, unsigned bits) {
    static constexpr const char* instruction = "wmma::load_matrix_sync";
    check_memory(memory, leading, bits, 128 / bits, instruction);
    MemoryOperands<Fragment, const void*> own{&fragment, memory, leading};
    for_whole_warp(own, instruction, [=](const PerLane<MemoryOperands<Fragment, const void*>>& lanes) {
        check_uniform(lanes, instruction);
        for (unsigned lane = 0; lane < 32; ++lane) {
            const char* word = static_cast<const char*>(memory) + (size_t{leading} * (lane >> 2) * bits / 8 + (lane & 3) * 4);
            memcpy(lanes[lane].fragment->x, word, 4);
        }
    });
}

template <class Fragment, class T, class Place>
void store(T* memory, const Fragment& fragment, unsigned leading, bool row_major, int along, Place place) {
    static constexpr const char* instruction = "wmma::store_matrix_sync";
    check_memory(memory, leading, sizeof(T) * 8, static_cast<unsigned>(along), instruction);
    MemoryOperands<const Fragment, T*> own{&fragment, memory, leading};
    for_whole_warp(own, instruction, [=](const PerLane<MemoryOperands<const Fragment, T*>>& lanes) {
        check_uniform(lanes, instruction);
        for (int lane = 0; lane < 32; ++lane)
            for (int x = 0; x < Fragment::num_elements; ++x) memory[offset_of(place(lane, x), leading, row_major)] = lanes[lane].fragment->x[x];
    });
}

}  // namespace wmma
}  // namespace emu

namespace nvcuda {
namespace wmma {

template <int m, int n, int k, class T, class Layout>
    requires(!emu::wmma::is_packed<T>)
void load_matrix_sync(fragment<matrix_a, m, n, k, T, Layout>& a, const typename emu::wmma::Element<T>::Memory* p, unsigned ldm) {
    constexpr bool rows = std::is_same_v<Layout, row_major>;
    emu::wmma::load(a, p, ldm, rows, rows ? k : m, emu::wmma::different(m * k), &emu::wmma::in_a<m, k, emu::wmma::per_word<T>>);
}
template <int m, int n, int k, class T, class Layout>
    requires(!emu::wmma::is_packed<T>)
void load_matrix_sync(fragment<matrix_b, m, n, k, T, Layout>& b, const typename emu::wmma::Element<T>::Memory* p, unsigned ldm) {
    constexpr bool rows = std::is_same_v<Layout, row_major>;
    emu::wmma::load(b, p, ldm, rows, rows ? n : k, emu::wmma::different(n * k), &emu::wmma::in_b<m, n, k, emu::wmma::per_word<T>>);
}
template <class Use, int m, int n, int k, class T, class Layout>
    requires(emu::wmma::is_packed<T>)
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& a, const void* p, unsigned ldm) {
    emu::wmma::load_packed(a, p, ldm, emu::wmma::Element<T>::Type::bits);
}
template <int m, int n, int k, class T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& c, const std::type_identity_t<T>* p, unsigned ldm, layout_t layout) {
    bool rows = layout == mem_row_major;
    emu::wmma::load(c, p, ldm, rows, rows ? n : m, m * n / 32, &emu::wmma::in_accumulator<m, n>);
}
template <int m, int n, int k, class T>
void store_matrix_sync(std::type_identity_t<T>* p, const fragment<accumulator, m, n, k, T>& c, unsigned ldm, layout_t layout) {
    bool rows = layout == mem_row_major;
    emu::wmma::store(p, c, ldm, rows, rows ? n : m, &emu::wmma::in_accumulator<m, n>);
}

}  // namespace wmma
}  // namespace nvcuda
