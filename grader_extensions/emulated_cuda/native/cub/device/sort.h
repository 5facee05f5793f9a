// cub::DeviceRadixSort, DeviceSegmentedRadixSort, DeviceSegmentedSort and DeviceMergeSort.
#pragma once

#include "common.h"

namespace cub {

namespace emulated {

template <class Key, class Value>
void sort_range(const Key* keys, Key* sorted, const Value* values, Value* moved, size_t count, int begin, int end, bool descending) {
    auto order = sorted_order<Key>(count, [&](size_t i) -> const Key& { return keys[i]; }, begin, end, descending);
    std::vector<Key> out(count);
    std::vector<Value> out_values(values ? count : 0);
    for (size_t i = 0; i < count; ++i) {
        out[i] = keys[order[i]];
        if (values) out_values[i] = values[order[i]];
    }
    std::copy(out.begin(), out.end(), sorted);
    std::copy(out_values.begin(), out_values.end(), moved);
}

template <class Key, class Value>
cudaError_t radix_sort(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved, int64_t count, int begin, int end,
                       bool descending, cudaStream_t stream) {
    return in_two_calls(storage, bytes, stream,
                        [=] { sort_range(keys, sorted, values, moved, static_cast<size_t>(count), begin, end, descending); });
}

// The result lies in the other buffer of each pair, which becomes the current one.
template <class Key, class Value>
cudaError_t radix_sort(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>* values, int64_t count, int begin, int end,
                       bool descending, cudaStream_t stream) {
    const Value* from = values ? values->Current() : nullptr;
    Value* to = values ? values->Alternate() : nullptr;
    cudaError_t done = radix_sort<Key, Value>(storage, bytes, keys.Current(), keys.Alternate(), from, to, count, begin, end, descending, stream);
    if (storage) keys.selector ^= 1;
    if (storage && values) values->selector ^= 1;
    return done;
}

template <class Key, class Value, class Begins, class Ends>
cudaError_t sort_segments(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved, int64_t segments, Begins begins,
                          Ends ends, int begin, int end, bool descending, cudaStream_t stream) {
    return in_two_calls(storage, bytes, stream, [=]() mutable {
        for (int64_t s = 0; s < segments; ++s) {
            auto first = static_cast<size_t>(begins[s]), last = static_cast<size_t>(ends[s]);
            if (first < last)
                sort_range(keys + first, sorted + first, values ? values + first : nullptr, values ? moved + first : nullptr, last - first, begin, end, descending);
        }
    });
}

template <class Keys, class SortedKeys, class Values, class SortedValues, class Less>
void merge_sort(Keys keys, SortedKeys sorted, Values values, SortedValues moved, size_t count, Less less, bool pairs) {
    std::vector<uint32_t> order(count);
    for (size_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return less(keys[a], keys[b]); });
    std::vector<ValueOf<Keys>> out(count);
    std::vector<ValueOf<Values>> out_values(pairs ? count : 0);
    for (size_t i = 0; i < count; ++i) {
        out[i] = keys[order[i]];
        if (pairs) out_values[i] = values[order[i]];
    }
    std::copy(out.begin(), out.end(), sorted);
    std::copy(out_values.begin(), out_values.end(), moved);
}

}  // namespace emulated

struct DeviceRadixSort {
#define EMU_RADIX(suffix, descending)                                                                                                                 \
    template <class Key, class Count>                                                                                                                 \
    static cudaError_t SortKeys##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, Count count, int begin = 0,                       \
                                        int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                                                   \
        return emulated::radix_sort<Key, NullType>(storage, bytes, keys, sorted, nullptr, nullptr, count, begin, end, descending, stream);            \
    }                                                                                                                                                 \
    template <class Key, class Count>                                                                                                                 \
    static cudaError_t SortKeys##suffix(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, Count count, int begin = 0, int end = sizeof(Key) * 8, \
                                        cudaStream_t stream = nullptr) {                                                                              \
        return emulated::radix_sort<Key, NullType>(storage, bytes, keys, nullptr, count, begin, end, descending, stream);                             \
    }                                                                                                                                                 \
    template <class Key, class Value, class Count>                                                                                                    \
    static cudaError_t SortPairs##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved, Count count,  \
                                         int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                                   \
        return emulated::radix_sort<Key, Value>(storage, bytes, keys, sorted, values, moved, count, begin, end, descending, stream);                  \
    }                                                                                                                                                 \
    template <class Key, class Value, class Count>                                                                                                    \
    static cudaError_t SortPairs##suffix(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>& values, Count count,             \
                                         int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                                   \
        return emulated::radix_sort<Key, Value>(storage, bytes, keys, &values, count, begin, end, descending, stream);                                \
    }
    EMU_RADIX(, false)
    EMU_RADIX(Descending, true)
#undef EMU_RADIX
};

#define EMU_SEGMENTED(prefix, suffix, descending, bits, given_bits)                                                                               \
    template <class Key, class Begins, class Ends>                                                                                                \
    static cudaError_t prefix##SortKeys##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, int64_t, int64_t segments,            \
                                                Begins begins, Ends ends, EMU_UNPACK bits cudaStream_t stream = nullptr) {                        \
        return emulated::sort_segments<Key, NullType>(storage, bytes, keys, sorted, nullptr, nullptr, segments, begins, ends,                     \
                                                      EMU_UNPACK given_bits, descending, stream);                                                 \
    }                                                                                                                                             \
    template <class Key, class Value, class Begins, class Ends>                                                                                   \
    static cudaError_t prefix##SortPairs##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved,   \
                                                 int64_t, int64_t segments, Begins begins, Ends ends, EMU_UNPACK bits cudaStream_t stream = nullptr) { \
        return emulated::sort_segments<Key, Value>(storage, bytes, keys, sorted, values, moved, segments, begins, ends, EMU_UNPACK given_bits,    \
                                                   descending, stream);                                                                           \
    }
#define EMU_UNPACK(...) __VA_ARGS__

struct DeviceSegmentedRadixSort {
    EMU_SEGMENTED(, , false, (int begin = 0, int end = sizeof(Key) * 8, ), (begin, end))
    EMU_SEGMENTED(, Descending, true, (int begin = 0, int end = sizeof(Key) * 8, ), (begin, end))
};
struct DeviceSegmentedSort {
    EMU_SEGMENTED(, , false, (), (0, sizeof(Key) * 8))
    EMU_SEGMENTED(, Descending, true, (), (0, sizeof(Key) * 8))
    EMU_SEGMENTED(Stable, , false, (), (0, sizeof(Key) * 8))
    EMU_SEGMENTED(Stable, Descending, true, (), (0, sizeof(Key) * 8))
};
#undef EMU_SEGMENTED
#undef EMU_UNPACK

struct DeviceMergeSort {
    template <class Keys, class Count, class Less>
    static cudaError_t SortKeys(void* storage, size_t& bytes, Keys keys, Count count, Less less, cudaStream_t stream = nullptr) {
        return SortKeysCopy(storage, bytes, keys, keys, count, less, stream);
    }
    template <class Keys, class Sorted, class Count, class Less>
    static cudaError_t SortKeysCopy(void* storage, size_t& bytes, Keys keys, Sorted sorted, Count count, Less less, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=] {
            NullType* none = nullptr;
            emulated::merge_sort(keys, sorted, none, none, static_cast<size_t>(count), less, false);
        });
    }
    template <class Keys, class Values, class Count, class Less>
    static cudaError_t SortPairs(void* storage, size_t& bytes, Keys keys, Values values, Count count, Less less, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream,
                                      [=] { emulated::merge_sort(keys, keys, values, values, static_cast<size_t>(count), less, true); });
    }
    template <class... Arguments>
    static cudaError_t StableSortKeys(void* storage, size_t& bytes, Arguments... arguments) {
        return SortKeys(storage, bytes, arguments...);
    }
    template <class... Arguments>
    static cudaError_t StableSortPairs(void* storage, size_t& bytes, Arguments... arguments) {
        return SortPairs(storage, bytes, arguments...);
    }
};

}  // namespace cub
