// What the parts of CUB share: work of threads together, operators, pairs, storage, the bits that a radix sort compares, and iterators.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

// Operations of a block or of lanes of a warp: each thread says where its part lies, one thread does the work for all, and all go on.
// The threads' stacks are the memory that they exchange through, so nothing lies in shared memory.
namespace emu EMU_HIDDEN {

// By the thread's number in its block; of the one block that runs on this OS thread.
inline EMU_THREAD_LOCAL void** shown_parts = nullptr;

// Runs work(parts) once, when all threads have come that take part, in the order of their numbers: those of the block, or, where `lanes` is
// a power of two, the lanes of a warp that this one is among.
template <unsigned lanes = 0, class Part, class Work>
void together(Part& own, Work work) {
    auto meet = [](unsigned first) {
        if constexpr (lanes == 0) __syncthreads();
        else __syncwarp((lanes == 32 ? ~0u : (1u << lanes) - 1) << (first % 32));
    };
    unsigned self = worker->current().linear, first = lanes ? self & ~(lanes - 1) : 0, count = lanes ? lanes : worker->launch()->threads();
    if (!shown_parts) shown_parts = static_cast<void**>(calloc(max_threads, sizeof(void*)));
    shown_parts[self] = &own;
    meet(first);
    void** begin = shown_parts + first;
    if (std::all_of(begin, shown_parts + self, [](void* part) { return !part; })) {
        std::vector<Part*> parts;
        for (unsigned at = 0; at < count; ++at)
            if (begin[at]) parts.push_back(static_cast<Part*>(begin[at]));
        work(parts);
    }
    meet(first);
    shown_parts[self] = nullptr;
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

// Memory for a T in shared memory, where no constructor runs, and what every class of a block or warp does with it.
// What the threads exchange goes another way.
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
using KeyBits = typename emu::BitsOf<T>::type;

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

// The order in which a stable sort puts `count` items; before(a, b) compares two by their numbers.
template <class Before>
std::vector<uint32_t> sorted_order(size_t count, Before before) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), before);
    return order;
}

// The same for a radix sort by the bits [begin, end) of the keys.
template <class KeyAt>
std::vector<uint32_t> radix_order(size_t count, KeyAt key_at, int begin, int end, bool descending) {
    std::vector<uint64_t> digits(count);
    uint64_t mask = end - begin >= 64 ? ~uint64_t{0} : (uint64_t{1} << (end - begin)) - 1;
    for (size_t i = 0; i < count; ++i) digits[i] = uint64_t{key_bits(key_at(i))} >> begin & mask;
    return sorted_order(count, [&](uint32_t a, uint32_t b) { return descending ? digits[b] < digits[a] : digits[a] < digits[b]; });
}

// The iterators that CUB had until version 2.

// A place in a sequence that is worked out: Self has `value_at(place)`.
template <class Self, class Value>
struct WorkedOut {
    using value_type = Value;
    using reference = Value;
    using pointer = const Value*;
    using difference_type = ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;
    ptrdiff_t place = 0;

    Value operator[](ptrdiff_t i) const { return self().value_at(place + i); }
    Value operator*() const { return self().value_at(place); }
    Self operator+(ptrdiff_t n) const {
        Self moved = self();
        moved.place += n;
        return moved;
    }
    Self operator-(ptrdiff_t n) const { return *this + -n; }
    ptrdiff_t operator-(const Self& other) const { return place - other.place; }
    Self& operator+=(ptrdiff_t n) {
        place += n;
        return static_cast<Self&>(*this);
    }
    Self& operator++() { return *this += 1; }
    bool operator==(const Self& other) const { return place == other.place; }
    bool operator!=(const Self& other) const { return place != other.place; }

private:
    const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace emulated

template <class Value, class Offset = ptrdiff_t>
struct CountingInputIterator : emulated::WorkedOut<CountingInputIterator<Value, Offset>, Value> {
    Value first;
    CountingInputIterator(Value first) : first(first) {}
    Value value_at(ptrdiff_t i) const { return static_cast<Value>(first + static_cast<Value>(i)); }
};
template <class Value, class Offset = ptrdiff_t>
struct ConstantInputIterator : emulated::WorkedOut<ConstantInputIterator<Value, Offset>, Value> {
    Value value;
    ConstantInputIterator(Value value) : value(value) {}
    Value value_at(ptrdiff_t) const { return value; }
};
template <class Value, class Function, class Iterator, class Offset = ptrdiff_t>
struct TransformInputIterator : emulated::WorkedOut<TransformInputIterator<Value, Function, Iterator, Offset>, Value> {
    Iterator iterator;
    Function function;
    TransformInputIterator(Iterator iterator, Function function) : iterator(iterator), function(function) {}
    Value value_at(ptrdiff_t i) const { return function(iterator[i]); }
};

}  // namespace cub
