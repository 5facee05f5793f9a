// What the parts of CUB share: work of threads together, operators, pairs, storage, and the bits that a radix sort compares.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

// Operations of a block or of lanes of a warp: each thread says where its part lies, one thread does the work for all, and all go on.
// The threads' stacks are the memory that they exchange through, so nothing lies in shared memory.
namespace emu EMU_HIDDEN {

// By the thread's number in its block; of the one block that runs on this OS thread.
inline EMU_THREAD_LOCAL void** shown_parts = nullptr;

inline void** parts() {
    if (!shown_parts) shown_parts = static_cast<void**>(calloc(max_threads, sizeof(void*)));
    return shown_parts;
}

template <class Part>
using Parts = std::vector<Part*>;

// Threads first to first + count that take part, in the order of their numbers.
template <class Part>
Parts<Part> collect_parts(unsigned first, unsigned count) {
    Parts<Part> found;
    found.reserve(count);
    for (unsigned at = first; at < first + count; ++at)
        if (void* part = parts()[at]) found.push_back(static_cast<Part*>(part));
    return found;
}

inline bool is_first_of(unsigned first, unsigned self) {
    for (unsigned at = first; at < self; ++at)
        if (parts()[at]) return false;
    return true;
}

// `work(parts)` runs once, when every thread of the block has come.
template <class Part, class Work>
void block_together(Part& own, Work work) {
    unsigned self = worker->current().linear;
    parts()[self] = &own;
    __syncthreads();
    if (is_first_of(0, self)) work(collect_parts<Part>(0, worker->launch()->threads()));
    __syncthreads();
    parts()[self] = nullptr;
}

// The same for the `width` lanes, a power of two, that this one is among.
template <class Part, class Work>
void lanes_together(unsigned width, Part& own, Work work) {
    unsigned self = worker->current().linear, first = self & ~(width - 1);
    unsigned mask = (width == 32 ? ~0u : (1u << width) - 1) << (first % 32);
    parts()[self] = &own;
    __syncwarp(mask);
    if (is_first_of(first, self)) work(collect_parts<Part>(first, width));
    __syncwarp(mask);
    parts()[self] = nullptr;
}

}  // namespace emu

struct __half;
struct __nv_bfloat16;

namespace cub {

struct NullType {
    bool operator==(const NullType&) const { return true; }
};
struct Sum {
    template <class A, class B>
    auto operator()(const A& a, const B& b) const { return a + b; }
};
struct Max {
    template <class T>
    T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
struct Min {
    template <class T>
    T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
struct Equality {
    template <class A, class B>
    bool operator()(const A& a, const B& b) const { return a == b; }
};
struct Inequality {
    template <class A, class B>
    bool operator()(const A& a, const B& b) const { return a != b; }
};
template <class Key, class Value>
struct KeyValuePair {
    using Key_t = Key;
    Key key;
    Value value;
    KeyValuePair() = default;
    KeyValuePair(const Key& key, const Value& value) : key(key), value(value) {}
    bool operator==(const KeyValuePair& other) const { return key == other.key && value == other.value; }
    bool operator!=(const KeyValuePair& other) const { return !(*this == other); }
};
// Of equal values the first.
struct ArgMax {
    template <class O, class T>
    KeyValuePair<O, T> operator()(const KeyValuePair<O, T>& a, const KeyValuePair<O, T>& b) const {
        return a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class O, class T>
    KeyValuePair<O, T> operator()(const KeyValuePair<O, T>& a, const KeyValuePair<O, T>& b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
template <class T>
struct DoubleBuffer {
    T* d_buffers[2];
    int selector = 0;
    DoubleBuffer() : d_buffers{nullptr, nullptr} {}
    DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
    T* Current() { return d_buffers[selector]; }
    T* Alternate() { return d_buffers[selector ^ 1]; }
};
template <class T>
constexpr T DivideAndRoundUp(T n, T d) { return n / d + (n % d != 0 ? 1 : 0); }
inline int LaneId() { return static_cast<int>(emu::lane()); }
inline int WarpId() { return static_cast<int>(emu::worker->current().linear / 32); }
inline int RowMajorTid(int x, int y, int) { return static_cast<int>((threadIdx.z * y + threadIdx.y) * x + threadIdx.x); }

namespace emulated {

// Memory for a T in shared memory, where no constructor runs, and what every class of a block or warp does with it. What the threads exchange
// goes another way.
template <class T>
struct WithStorage {
    struct TempStorage {
        alignas(16) unsigned char bytes[16];
        TempStorage& Alias() { return *this; }
    };
    WithStorage() = default;
    explicit WithStorage(TempStorage&) {}
};

template <class T>
inline constexpr bool is_short_float = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class T>
using KeyBits = std::conditional_t<sizeof(T) == 1, uint8_t, std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

// Bits in the order of the values: of floats both zeros are the same.
template <class T>
KeyBits<T> key_bits(const T& value) {
    using Bits = KeyBits<T>;
    constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(T) * 8 - 1));
    Bits bits = 0;
    memcpy(&bits, &value, sizeof value);
    if constexpr (std::is_floating_point_v<T> || is_short_float<T>) {
        if (bits == sign) bits = 0;
        return static_cast<Bits>(bits & sign ? ~bits : bits | sign);
    } else if constexpr (std::is_signed_v<T>) {
        return static_cast<Bits>(bits ^ sign);
    } else {
        return bits;
    }
}

template <class T>
KeyBits<T> key_digits(const T& value, int begin, int end) {
    uint64_t bits = key_bits(value) >> begin;
    int count = end - begin;
    return static_cast<KeyBits<T>>(count >= 64 ? bits : bits & ((uint64_t{1} << count) - 1));
}

// The order in which a stable radix sort by bits [begin, end) puts the keys.
template <class Key, class KeyAt>
std::vector<uint32_t> sorted_order(size_t count, KeyAt key_at, int begin, int end, bool descending) {
    std::vector<KeyBits<Key>> digits(count);
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = 0; i < count; ++i) digits[i] = key_digits<Key>(key_at(i), begin, end);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return descending ? digits[b] < digits[a] : digits[a] < digits[b]; });
    return order;
}

}  // namespace emulated
}  // namespace cub
