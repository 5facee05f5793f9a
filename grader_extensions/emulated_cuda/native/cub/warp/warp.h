// cub::WarpReduce, WarpScan, WarpMergeSort and the shuffles.
#pragma once

#include "../block/block.h"

namespace cub {

namespace emulated {

template <class T>
struct FlaggedPart {
    T value;
    bool flag;
};

// Each lane is reduced with those behind it, up to the next segment; the lane at a segment's head has the result.
template <class Parts, class Operation>
void reduce_segments(const Parts& parts, Operation operation, bool heads) {
    for (size_t lane = 0; lane < parts.size(); ++lane) {
        if (lane > 0 && !(heads ? parts[lane]->flag : parts[lane - 1]->flag)) continue;
        auto total = parts[lane]->value;
        for (size_t next = lane + 1; next < parts.size() && !(heads ? parts[next]->flag : parts[next - 1]->flag); ++next)
            total = operation(total, parts[next]->value);
        parts[lane]->value = total;
    }
}

}  // namespace emulated

// As on the GPU, only the first lane gets the result.
template <class T, int Width = 32, int = 0>
class WarpReduce : public emulated::WithStorage<T> {
    static_assert(Width > 0 && Width <= 32 && (Width & (Width - 1)) == 0, "the emulated device has cub::WarpReduce of 1, 2, 4, 8, 16 or 32 lanes");

public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Operation>
    T Reduce(T value, Operation operation, int valid = Width) {
        emulated::ReducePart<T> own{value};
        emu::lanes_together(Width, own, [&](const auto& parts) {
            size_t count = parts.size() < static_cast<size_t>(valid) ? parts.size() : static_cast<size_t>(valid);
            parts[0]->value = emulated::reduce_parts<T>(parts, count, operation);
        });
        return own.value;
    }
    T Sum(T value) { return Reduce(value, cub::Sum()); }
    T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
    template <int Items>
    T Sum(T (&items)[Items]) { return Sum(emulated::reduce_items(items, cub::Sum())); }
    template <class Flag, class Operation>
    T HeadSegmentedReduce(T value, Flag head, Operation operation) { return segments(value, static_cast<bool>(head), operation, true); }
    template <class Flag, class Operation>
    T TailSegmentedReduce(T value, Flag tail, Operation operation) { return segments(value, static_cast<bool>(tail), operation, false); }
    template <class Flag>
    T HeadSegmentedSum(T value, Flag head) { return HeadSegmentedReduce(value, head, cub::Sum()); }
    template <class Flag>
    T TailSegmentedSum(T value, Flag tail) { return TailSegmentedReduce(value, tail, cub::Sum()); }

private:
    template <class Operation>
    T segments(T value, bool flag, Operation operation, bool heads) {
        emulated::FlaggedPart<T> own{value, flag};
        emu::lanes_together(Width, own, [&](const auto& parts) { emulated::reduce_segments(parts, operation, heads); });
        return own.value;
    }
};

template <class T, int Width = 32, int = 0>
class WarpScan : public emulated::WithStorage<T> {
    static_assert(Width > 0 && Width <= 32 && (Width & (Width - 1)) == 0, "the emulated device has cub::WarpScan of 1, 2, 4, 8, 16 or 32 lanes");

    template <class Operation>
    T run(const T& in, T& out, Operation operation, bool inclusive, bool has_first, T first) {
        T value = in, result = in;
        emulated::ScanPart<T> own{&value, &result, 1};
        emu::lanes_together(Width, own, [&](const auto& parts) { emulated::scan_parts<T>(parts, operation, inclusive, has_first, first); });
        out = result;
        return own.aggregate;
    }

public:
    using emulated::WithStorage<T>::WithStorage;
    void InclusiveSum(T in, T& out) { run(in, out, cub::Sum(), true, false, T{}); }
    void InclusiveSum(T in, T& out, T& aggregate) { aggregate = run(in, out, cub::Sum(), true, false, T{}); }
    void ExclusiveSum(T in, T& out) { run(in, out, cub::Sum(), false, true, T{}); }
    void ExclusiveSum(T in, T& out, T& aggregate) { aggregate = run(in, out, cub::Sum(), false, true, T{}); }
    template <class Operation>
    void InclusiveScan(T in, T& out, Operation operation) { run(in, out, operation, true, false, T{}); }
    template <class Operation>
    void InclusiveScan(T in, T& out, Operation operation, T& aggregate) { aggregate = run(in, out, operation, true, false, T{}); }
    template <class Operation>
    void ExclusiveScan(T in, T& out, Operation operation) { run(in, out, operation, false, false, T{}); }
    template <class Operation>
    void ExclusiveScan(T in, T& out, T first, Operation operation) { run(in, out, operation, false, true, first); }
    template <class Operation>
    void ExclusiveScan(T in, T& out, Operation operation, T& aggregate) { aggregate = run(in, out, operation, false, false, T{}); }
    template <class Operation>
    void ExclusiveScan(T in, T& out, T first, Operation operation, T& aggregate) {
        aggregate = run(in, out, operation, false, true, first);
    }
    template <class Operation>
    void Scan(T in, T& inclusive, T& exclusive, Operation operation) {
        InclusiveScan(in, inclusive, operation);
        ExclusiveScan(in, exclusive, operation);
    }
    void Sum(T in, T& inclusive, T& exclusive) {
        InclusiveSum(in, inclusive);
        ExclusiveSum(in, exclusive);
    }
    T Broadcast(T value, unsigned source) {
        emulated::ReducePart<T> own{value};
        emu::lanes_together(Width, own, [&](const auto& parts) {
            for (auto* part : parts) part->value = T{parts[source]->value};
        });
        return own.value;
    }
};

template <class Key, int Items, int Width = 32, class Value = NullType>
class WarpMergeSort : public emulated::WithStorage<Key> {
public:
    using emulated::WithStorage<Key>::WithStorage;
    template <class Less>
    void Sort(Key (&keys)[Items], Less less) { run(keys, nullptr, less); }
    template <class Less>
    void Sort(Key (&keys)[Items], Value (&values)[Items], Less less) { run(keys, values, less); }

private:
    template <class Less>
    void run(Key* keys, Value* values, Less less) {
        emulated::SortPart<Key, Value> own{keys, values};
        emu::lanes_together(Width, own, [&](const auto& parts) { emulated::merge_sort_parts<Key, Value>(parts, Items, less, Items * Width); });
    }
};

// Of values of any size: the bits travel in words.
template <class T, class Move>
T shuffle_words(const T& value, Move move) {
    constexpr size_t count = (sizeof(T) + 3) / 4;
    unsigned words[count] = {};
    memcpy(words, &value, sizeof value);
    for (unsigned& word : words) word = move(word);
    T result;
    memcpy(static_cast<void*>(&result), words, sizeof result);
    return result;
}
template <int Width, class T>
T ShuffleIndex(T value, int source, unsigned mask) {
    return shuffle_words(value, [=](unsigned word) { return __shfl_sync(mask, word, source, Width); });
}
template <int Width, class T>
T ShuffleUp(T value, int offset, int first, unsigned mask) {
    bool inside = static_cast<int>(emu::lane() & (Width - 1)) - offset >= first;
    T other = shuffle_words(value, [=](unsigned word) { return __shfl_up_sync(mask, word, static_cast<unsigned>(offset), Width); });
    return inside ? other : value;
}
template <int Width, class T>
T ShuffleDown(T value, int offset, int last, unsigned mask) {
    bool inside = static_cast<int>(emu::lane() & (Width - 1)) + offset <= last;
    T other = shuffle_words(value, [=](unsigned word) { return __shfl_down_sync(mask, word, static_cast<unsigned>(offset), Width); });
    return inside ? other : value;
}

}  // namespace cub
