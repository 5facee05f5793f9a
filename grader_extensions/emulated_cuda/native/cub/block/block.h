// cub::BlockExchange, BlockLoad, BlockStore, BlockReduce, BlockScan, BlockRadixSort, BlockMergeSort, BlockHistogram, BlockDiscontinuity.
#pragma once

#include <climits>

#include "../types.h"

namespace cub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

namespace emulated {

template <class T>
struct ExchangePart {
    const T* in;
    T* out;
    const int* ranks;
};

// Items as one array, in blocked order (thread 0's first) or striped order (everybody's first).
inline size_t place(size_t thread, size_t item, size_t threads, size_t items, bool striped) {
    return striped ? item * threads + thread : thread * items + item;
}
inline int number_in_block() { return static_cast<int>(emu::worker->current().linear); }

template <class T, class Parts>
void rearrange(const Parts& parts, size_t items, bool from_striped, bool to_striped) {
    std::vector<T> all(parts.size() * items);
    for (size_t t = 0; t < parts.size(); ++t)
        for (size_t i = 0; i < items; ++i)
            all[parts[t]->ranks ? static_cast<size_t>(parts[t]->ranks[i]) : place(t, i, parts.size(), items, from_striped)] = parts[t]->in[i];
    for (size_t t = 0; t < parts.size(); ++t)
        for (size_t i = 0; i < items; ++i) parts[t]->out[i] = all[place(t, i, parts.size(), items, to_striped)];
}

}  // namespace emulated

template <class T, int X, int Items, bool = false, int Y = 1, int Z = 1, int = 0>
class BlockExchange : public emulated::WithStorage<T> {
    template <class Out>
    void run(const T* in, Out* out, const int* ranks, bool from_striped, bool to_striped) {
        T moved[Items];
        emulated::ExchangePart<T> own{in, moved, ranks};
        emu::block_together(own, [&](const auto& parts) { emulated::rearrange<T>(parts, Items, from_striped, to_striped); });
        for (int i = 0; i < Items; ++i) out[i] = moved[i];
    }

public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Out>
    void StripedToBlocked(const T (&in)[Items], Out (&out)[Items]) { run(in, out, nullptr, true, false); }
    template <class Out>
    void BlockedToStriped(const T (&in)[Items], Out (&out)[Items]) { run(in, out, nullptr, false, true); }
    template <class Out>
    void ScatterToBlocked(const T (&in)[Items], Out (&out)[Items], int (&ranks)[Items]) { run(in, out, ranks, false, false); }
    template <class Out>
    void ScatterToStriped(const T (&in)[Items], Out (&out)[Items], int (&ranks)[Items]) { run(in, out, ranks, false, true); }
    void StripedToBlocked(T (&items)[Items]) { StripedToBlocked(items, items); }
    void BlockedToStriped(T (&items)[Items]) { BlockedToStriped(items, items); }
    void ScatterToBlocked(T (&items)[Items], int (&ranks)[Items]) { ScatterToBlocked(items, items, ranks); }
    void ScatterToStriped(T (&items)[Items], int (&ranks)[Items]) { ScatterToStriped(items, items, ranks); }
};

template <class T, int Items, class Iterator>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && thread * Items + i < valid; ++i) items[i] = from[thread * Items + i];
}
template <class T, class Default, int Items, class Iterator>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Items], int valid, Default other) {
    for (T& item : items) item = other;
    LoadDirectBlocked(thread, from, items, valid);
}
template <int Threads, class T, int Items, class Iterator>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && i * Threads + thread < valid; ++i) items[i] = from[i * Threads + thread];
}
template <int Threads, class T, class Default, int Items, class Iterator>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Items], int valid, Default other) {
    for (T& item : items) item = other;
    LoadDirectStriped<Threads>(thread, from, items, valid);
}
template <class T, int Items>
void LoadDirectBlockedVectorized(int thread, const T* from, T (&items)[Items]) { LoadDirectBlocked(thread, from, items); }
template <class T, int Items, class Iterator>
void StoreDirectBlocked(int thread, Iterator to, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && thread * Items + i < valid; ++i) to[thread * Items + i] = items[i];
}
template <int Threads, class T, int Items, class Iterator>
void StoreDirectStriped(int thread, Iterator to, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && i * Threads + thread < valid; ++i) to[i * Threads + thread] = items[i];
}
template <class T, int Items>
void StoreDirectBlockedVectorized(int thread, T* to, T (&items)[Items]) { StoreDirectBlocked(thread, to, items); }

template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockLoad : public emulated::WithStorage<T> {
public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Iterator, class... Rest>
    void Load(Iterator from, T (&items)[Items], Rest... rest) {
        if constexpr (Algorithm == BLOCK_LOAD_STRIPED) LoadDirectStriped<X * Y * Z>(emulated::number_in_block(), from, items, rest...);
        else LoadDirectBlocked(emulated::number_in_block(), from, items, rest...);
    }
};

template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore : public emulated::WithStorage<T> {
public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Iterator, class... Rest>
    void Store(Iterator to, T (&items)[Items], Rest... rest) {
        if constexpr (Algorithm == BLOCK_STORE_STRIPED) StoreDirectStriped<X * Y * Z>(emulated::number_in_block(), to, items, rest...);
        else StoreDirectBlocked(emulated::number_in_block(), to, items, rest...);
    }
};

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS,
    BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC,
};

namespace emulated {

// In the order of a warp's shuffles: halves of up to 32 values, then the warps one after the other.
template <class T, class Parts, class Operation>
T reduce_parts(const Parts& parts, size_t count, Operation operation) {
    T total{};
    for (size_t first = 0; first < count; first += 32) {
        size_t lanes = count - first < 32 ? count - first : 32;
        T values[32];
        for (size_t lane = 0; lane < lanes; ++lane) values[lane] = parts[first + lane]->value;
        for (size_t step = 1; step < 32; step *= 2)
            for (size_t lane = 0; lane + step < lanes; lane += 2 * step) values[lane] = operation(values[lane], values[lane + step]);
        total = first == 0 ? values[0] : static_cast<T>(operation(total, values[0]));
    }
    return total;
}

template <class T, int Items, class Operation>
T reduce_items(const T (&items)[Items], Operation operation) {
    T total = items[0];
    for (int i = 1; i < Items; ++i) total = operation(total, items[i]);
    return total;
}

template <class T>
struct ReducePart {
    T value;
};

}  // namespace emulated

// As on the GPU, only thread 0 gets the result.
template <class T, int X, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0>
class BlockReduce : public emulated::WithStorage<T> {
public:
    using emulated::WithStorage<T>::WithStorage;

    template <class Operation>
    T Reduce(T value, Operation operation) { return Reduce(value, operation, X * Y * Z); }
    template <class Operation>
    T Reduce(T value, Operation operation, int valid) {
        emulated::ReducePart<T> own{value};
        emu::block_together(own, [&](const auto& parts) {
            size_t count = parts.size() < static_cast<size_t>(valid) ? parts.size() : static_cast<size_t>(valid);
            parts[0]->value = emulated::reduce_parts<T>(parts, count, operation);
        });
        return own.value;
    }
    template <int Items, class Operation>
    T Reduce(T (&items)[Items], Operation operation) { return Reduce(emulated::reduce_items(items, operation), operation); }
    T Sum(T value) { return Reduce(value, cub::Sum()); }
    T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
    template <int Items>
    T Sum(T (&items)[Items]) { return Reduce(items, cub::Sum()); }
};

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace emulated {

// One thread's values: `in` becomes `out`, which may be the same.
template <class T>
struct ScanPart {
    const T* in;
    T* out;
    int items;
    T aggregate{};
};

// has_first: `first` stands before all values; else the first output of an exclusive scan is left as it is.
template <class T, class Parts, class Operation>
void scan_parts(const Parts& parts, Operation operation, bool inclusive, bool has_first, T first) {
    T running = first, aggregate{};
    bool any = has_first, any_value = false;
    for (auto* part : parts) {
        for (int i = 0; i < part->items; ++i) {
            T value = part->in[i];
            T next = any ? static_cast<T>(operation(running, value)) : value;
            if (inclusive) part->out[i] = next;
            else if (any) part->out[i] = running;
            running = next;
            any = true;
            aggregate = any_value ? static_cast<T>(operation(aggregate, value)) : value;
            any_value = true;
        }
    }
    for (auto* part : parts) part->aggregate = aggregate;
}

}  // namespace emulated

template <class T, int X, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0>
class BlockScan : public emulated::WithStorage<T> {
    template <class Operation>
    T run(const T* in, T* out, int items, Operation operation, bool inclusive, bool has_first, T first) {
        emulated::ScanPart<T> own{in, out, items};
        emu::block_together(own, [&](const auto& parts) { emulated::scan_parts<T>(parts, operation, inclusive, has_first, first); });
        return own.aggregate;
    }
    // The first warp asks for what stands before the block; thread 0's answer counts.
    template <class Operation, class Prefix>
    void run_with_prefix(const T* in, T* out, int items, Operation operation, bool inclusive, Prefix& prefix) {
        emulated::ScanPart<T> own{in, nullptr, items};
        emu::block_together(own, [&](const auto& parts) {
            T total{};
            bool any = false;
            for (auto* part : parts)
                for (int i = 0; i < part->items; ++i) {
                    total = any ? static_cast<T>(operation(total, part->in[i])) : part->in[i];
                    any = true;
                }
            for (auto* part : parts) part->aggregate = total;
        });
        T first = own.aggregate;
        if (emu::worker->current().linear < 32) first = prefix(own.aggregate);
        emulated::ScanPart<T> again{in, out, items, first};
        emu::block_together(again, [&](const auto& parts) { emulated::scan_parts<T>(parts, operation, inclusive, true, parts[0]->aggregate); });
    }

public:
    using emulated::WithStorage<T>::WithStorage;

// Each scan by itself, with the block's aggregate, and after a prefix that the first warp asks for.
#define EMU_UNPACK(...) __VA_ARGS__
#define EMU_SCAN(name, head, parameters, data, operation, inclusive, has_first, first)           \
    template <EMU_UNPACK head>                                                                   \
    void name(EMU_UNPACK parameters) {                                                           \
        run(EMU_UNPACK data, operation, inclusive, has_first, first);                            \
    }                                                                                            \
    template <EMU_UNPACK head>                                                                   \
    void name(EMU_UNPACK parameters, T& aggregate) {                                             \
        aggregate = run(EMU_UNPACK data, operation, inclusive, has_first, first);                \
    }
#define EMU_PREFIX_SCAN(name, head, parameters, data, operation, inclusive)                      \
    template <EMU_UNPACK head, class Prefix>                                                     \
    void name(EMU_UNPACK parameters, Prefix& prefix) {                                           \
        run_with_prefix(EMU_UNPACK data, operation, inclusive, prefix);                          \
    }
#define EMU_SCANS(sum_head, scan_head, in, out, data)                                                                    \
    EMU_SCAN(ExclusiveSum, sum_head, (in, out), data, cub::Sum(), false, true, T{})                                      \
    EMU_PREFIX_SCAN(ExclusiveSum, sum_head, (in, out), data, cub::Sum(), false)                                          \
    EMU_SCAN(InclusiveSum, sum_head, (in, out), data, cub::Sum(), true, false, T{})                                      \
    EMU_PREFIX_SCAN(InclusiveSum, sum_head, (in, out), data, cub::Sum(), true)                                           \
    EMU_SCAN(ExclusiveScan, scan_head, (in, out, Operation operation), data, operation, false, false, T{})               \
    EMU_SCAN(ExclusiveScan, scan_head, (in, out, T first, Operation operation), data, operation, false, true, first)     \
    EMU_PREFIX_SCAN(ExclusiveScan, scan_head, (in, out, Operation operation), data, operation, false)                    \
    EMU_SCAN(InclusiveScan, scan_head, (in, out, Operation operation), data, operation, true, false, T{})                \
    EMU_PREFIX_SCAN(InclusiveScan, scan_head, (in, out, Operation operation), data, operation, true)

    EMU_SCANS((int = 0), (class Operation), T in, T& out, (&in, &out, 1))
    EMU_SCANS((int Items), (int Items, class Operation), T (&in)[Items], T (&out)[Items], (in, out, Items))
    template <int Items, class Operation>
    void InclusiveScan(T (&in)[Items], T (&out)[Items], T first, Operation operation) {
        run(in, out, Items, operation, true, true, first);
    }
#undef EMU_SCANS
#undef EMU_PREFIX_SCAN
#undef EMU_SCAN
#undef EMU_UNPACK
};

enum RadixRankAlgorithm { RADIX_RANK_BASIC, RADIX_RANK_MEMOIZE, RADIX_RANK_MATCH };

namespace emulated {

template <class Key, class Value>
struct SortPart {
    Key* keys;
    Value* values;
};

// Hands the items out again in `order`, blocked or striped.
template <class Key, class Value, class Parts>
void reorder(const Parts& parts, size_t items, const std::vector<uint32_t>& order, bool striped) {
    std::vector<Key> keys(order.size());
    std::vector<Value> values(order.size());
    for (size_t at = 0; at < order.size(); ++at) {
        const auto& part = *parts[order[at] / items];
        keys[at] = part.keys[order[at] % items];
        if (part.values) values[at] = part.values[order[at] % items];
    }
    for (size_t t = 0; t < parts.size(); ++t)
        for (size_t i = 0; i < items; ++i) {
            size_t at = place(t, i, parts.size(), items, striped);
            parts[t]->keys[i] = keys[at];
            if (parts[t]->values) parts[t]->values[i] = values[at];
        }
}

template <class Key, class Value, class Parts, class Less>
void merge_sort_parts(const Parts& parts, size_t items, Less less, size_t valid) {
    std::vector<uint32_t> order(parts.size() * items);
    std::iota(order.begin(), order.end(), 0u);
    auto key_at = [&](uint32_t i) -> const Key& { return parts[i / items]->keys[i % items]; };
    auto last = order.begin() + static_cast<ptrdiff_t>(std::min(valid, order.size()));
    std::stable_sort(order.begin(), last, [&](uint32_t a, uint32_t b) { return less(key_at(a), key_at(b)); });
    reorder<Key, Value>(parts, items, order, false);
}

}  // namespace emulated

template <class Key, int X, int Items, class Value = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int Y = 1,
          int Z = 1, int = 0>
class BlockRadixSort : public emulated::WithStorage<Key> {
    void run(Key* keys, Value* values, int begin, int end, bool descending, bool striped) {
        emulated::SortPart<Key, Value> own{keys, values};
        emu::block_together(own, [&](const auto& parts) {
            auto key_at = [&](size_t i) -> const Key& { return parts[i / Items]->keys[i % Items]; };
            auto order = emulated::sorted_order<Key>(parts.size() * Items, key_at, begin, end, descending);
            emulated::reorder<Key, Value>(parts, Items, order, striped);
        });
    }
    static constexpr int bits = sizeof(Key) * 8;

public:
    using emulated::WithStorage<Key>::WithStorage;
    void Sort(Key (&keys)[Items], int begin = 0, int end = bits) { run(keys, nullptr, begin, end, false, false); }
    void Sort(Key (&keys)[Items], Value (&values)[Items], int begin = 0, int end = bits) { run(keys, values, begin, end, false, false); }
    void SortDescending(Key (&keys)[Items], int begin = 0, int end = bits) { run(keys, nullptr, begin, end, true, false); }
    void SortDescending(Key (&keys)[Items], Value (&values)[Items], int begin = 0, int end = bits) { run(keys, values, begin, end, true, false); }
    void SortBlockedToStriped(Key (&keys)[Items], int begin = 0, int end = bits) { run(keys, nullptr, begin, end, false, true); }
    void SortBlockedToStriped(Key (&keys)[Items], Value (&values)[Items], int begin = 0, int end = bits) {
        run(keys, values, begin, end, false, true);
    }
    void SortDescendingBlockedToStriped(Key (&keys)[Items], int begin = 0, int end = bits) { run(keys, nullptr, begin, end, true, true); }
    void SortDescendingBlockedToStriped(Key (&keys)[Items], Value (&values)[Items], int begin = 0, int end = bits) {
        run(keys, values, begin, end, true, true);
    }
};

template <class Key, int X, int Items, class Value = NullType, int Y = 1, int Z = 1>
class BlockMergeSort : public emulated::WithStorage<Key> {
    template <class Less>
    void run(Key* keys, Value* values, Less less, int valid) {
        emulated::SortPart<Key, Value> own{keys, values};
        emu::block_together(own, [&](const auto& parts) {
            emulated::merge_sort_parts<Key, Value>(parts, Items, less, static_cast<size_t>(valid));
        });
    }
    static constexpr int all = X * Y * Z * Items;

public:
    using emulated::WithStorage<Key>::WithStorage;
    template <class Less>
    void Sort(Key (&keys)[Items], Less less) { run(keys, nullptr, less, all); }
    template <class Less>
    void Sort(Key (&keys)[Items], Value (&values)[Items], Less less) { run(keys, values, less, all); }
    template <class Less>
    void Sort(Key (&keys)[Items], Less less, int valid, Key) { run(keys, nullptr, less, valid); }
    template <class Less>
    void Sort(Key (&keys)[Items], Value (&values)[Items], Less less, int valid, Key) { run(keys, values, less, valid); }
    template <class Less, class... Rest>
    void StableSort(Key (&keys)[Items], Less less, Rest... rest) { Sort(keys, less, rest...); }
};

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int = 0>
class BlockHistogram : public emulated::WithStorage<T> {
public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Counter>
    void InitHistogram(Counter* counts) {
        for (unsigned bin = emu::worker->current().linear; bin < Bins; bin += X * Y * Z) counts[bin] = 0;
    }
    template <class Counter>
    void Histogram(T (&items)[Items], Counter* counts) {
        InitHistogram(counts);
        __syncthreads();
        Composite(items, counts);
    }
    template <class Counter>
    void Composite(T (&items)[Items], Counter* counts) {
        for (const T& item : items) atomicAdd(&counts[static_cast<size_t>(item)], Counter{1});
        __syncthreads();
    }
};

namespace emulated {

template <class T>
struct EdgePart {
    T first, last;
};

}  // namespace emulated

template <class T, int X, int Y = 1, int Z = 1, int = 0>
class BlockDiscontinuity : public emulated::WithStorage<T> {
    using Edges = emulated::EdgePart<T>;
    // What the threads before and after hold next to this one's items.
    template <int Items>
    static void neighbours(const T (&items)[Items], T& before, T& after) {
        Edges own{items[0], items[Items - 1]};
        emu::block_together(own, [](const auto& parts) {
            T last = parts[0]->last;
            for (size_t t = 0; t < parts.size(); ++t) {
                T own_last = parts[t]->last;
                parts[t]->last = last;
                if (t > 0) parts[t - 1]->first = parts[t]->first;
                last = own_last;
            }
        });
        before = own.last;
        after = own.first;
    }
    static bool is_first() { return emu::worker->current().linear == 0; }
    static bool is_last() { return emu::worker->current().linear == X * Y * Z - 1; }

public:
    using emulated::WithStorage<T>::WithStorage;
    template <int Items, class Flag, class Differ>
    void FlagHeads(Flag (&heads)[Items], T (&items)[Items], Differ differ) {
        T before, after;
        neighbours(items, before, after);
        for (int i = 0; i < Items; ++i) heads[i] = i == 0 ? is_first() || differ(before, items[0]) : differ(items[i - 1], items[i]);
    }
    template <int Items, class Flag, class Differ>
    void FlagHeads(Flag (&heads)[Items], T (&items)[Items], Differ differ, T before_block) {
        FlagHeads(heads, items, differ);
        if (is_first()) heads[0] = differ(before_block, items[0]);
    }
    template <int Items, class Flag, class Differ>
    void FlagTails(Flag (&tails)[Items], T (&items)[Items], Differ differ) {
        T before, after;
        neighbours(items, before, after);
        for (int i = 0; i < Items; ++i) tails[i] = i == Items - 1 ? is_last() || differ(items[i], after) : differ(items[i], items[i + 1]);
    }
    template <int Items, class Flag, class Differ>
    void FlagTails(Flag (&tails)[Items], T (&items)[Items], Differ differ, T after_block) {
        FlagTails(tails, items, differ);
        if (is_last()) tails[Items - 1] = differ(items[Items - 1], after_block);
    }
    template <int Items, class Flag, class Differ>
    void FlagHeadsAndTails(Flag (&heads)[Items], Flag (&tails)[Items], T (&items)[Items], Differ differ) {
        FlagHeads(heads, items, differ);
        FlagTails(tails, items, differ);
    }
};

}  // namespace cub
