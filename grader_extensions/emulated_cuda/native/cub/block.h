// cub::BlockExchange, BlockLoad, BlockStore, BlockReduce, BlockScan, BlockRadixSort, BlockDiscontinuity, WarpReduce, WarpScan, shuffles.
#pragma once

#include <climits>

#include "types.h"

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
            all[parts[t]->ranks ? static_cast<size_t>(parts[t]->ranks[i]) : place(t, i, parts.size(), items, from_striped)] =
                parts[t]->in[i];
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
        emu::together(own, [&](const auto& parts) { emulated::rearrange<T>(parts, Items, from_striped, to_striped); });
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

// Items whose number in the block is not below `valid` get the default, if one is given.
template <class T, int Items, class Iterator, class... Default>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Items], int valid = INT_MAX, Default... other) {
    (std::fill_n(items, Items, other), ...);
    for (int i = 0; i < Items && thread * Items + i < valid; ++i) items[i] = from[thread * Items + i];
}
template <int Threads, class T, int Items, class Iterator, class... Default>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Items], int valid = INT_MAX, Default... other) {
    (std::fill_n(items, Items, other), ...);
    for (int i = 0; i < Items && i * Threads + thread < valid; ++i) items[i] = from[i * Threads + thread];
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

template <int width>
inline constexpr bool is_warp_part = width > 0 && width <= 32 && (width & (width - 1)) == 0;

// In the order of a warp's shuffles: halves of up to 32 values, then the warps one after the other.  The first thread gets the result.
template <unsigned lanes, class T, class Operation>
T reduce(T value, Operation operation, int valid) {
    emu::together<lanes>(value, [&](const auto& parts) {
        size_t count = std::min(parts.size(), static_cast<size_t>(valid));
        T total{};
        for (size_t first = 0; first < count; first += 32) {
            size_t size = std::min(count - first, size_t{32});
            T values[32];
            for (size_t lane = 0; lane < size; ++lane) values[lane] = *parts[first + lane];
            for (size_t step = 1; step < 32; step *= 2)
                for (size_t lane = 0; lane + step < size; lane += 2 * step) values[lane] = operation(values[lane], values[lane + step]);
            total = first == 0 ? values[0] : static_cast<T>(operation(total, values[0]));
        }
        *parts[0] = total;
    });
    return value;
}

template <class T, int Items, class Operation>
T reduce_items(const T (&items)[Items], Operation operation) {
    T total = items[0];
    for (int i = 1; i < Items; ++i) total = operation(total, items[i]);
    return total;
}

// Each lane is reduced with those behind it, up to the next segment; the lane at a segment's head has the result.
template <unsigned lanes, class T, class Operation>
T reduce_segments(T value, bool flag, Operation operation, bool heads) {
    std::pair<T, bool> own{value, flag};
    emu::together<lanes>(own, [&](const auto& parts) {
        auto begins = [&](size_t lane) { return heads ? parts[lane]->second : parts[lane - 1]->second; };
        for (size_t lane = 0; lane < parts.size(); ++lane) {
            if (lane > 0 && !begins(lane)) continue;
            for (size_t next = lane + 1; next < parts.size() && !begins(next); ++next)
                parts[lane]->first = operation(parts[lane]->first, parts[next]->first);
        }
    });
    return own.first;
}

}  // namespace emulated

// As on the GPU, only thread 0 gets the result.
template <class T, int X, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0>
class BlockReduce : public emulated::WithStorage<T> {
public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Operation>
    T Reduce(T value, Operation operation, int valid = X * Y * Z) { return emulated::reduce<0>(value, operation, valid); }
    template <int Items, class Operation>
    T Reduce(T (&items)[Items], Operation operation) { return Reduce(emulated::reduce_items(items, operation), operation); }
    T Sum(T value, int valid = X * Y * Z) { return Reduce(value, cub::Sum(), valid); }
    template <int Items>
    T Sum(T (&items)[Items]) { return Reduce(items, cub::Sum()); }
};

// As on the GPU, only the first lane gets the result.
template <class T, int Width = 32, int = 0>
class WarpReduce : public emulated::WithStorage<T> {
    static_assert(emulated::is_warp_part<Width>, "the emulated device has cub::WarpReduce of 1, 2, 4, 8, 16 or 32 lanes");

public:
    using emulated::WithStorage<T>::WithStorage;
    template <class Operation>
    T Reduce(T value, Operation operation, int valid = Width) { return emulated::reduce<Width>(value, operation, valid); }
    T Sum(T value, int valid = Width) { return Reduce(value, cub::Sum(), valid); }
    template <int Items>
    T Sum(T (&items)[Items]) { return Sum(emulated::reduce_items(items, cub::Sum())); }
    template <class Flag, class Operation>
    T HeadSegmentedReduce(T value, Flag head, Operation operation) {
        return emulated::reduce_segments<Width>(value, static_cast<bool>(head), operation, true);
    }
    template <class Flag, class Operation>
    T TailSegmentedReduce(T value, Flag tail, Operation operation) {
        return emulated::reduce_segments<Width>(value, static_cast<bool>(tail), operation, false);
    }
    template <class Flag>
    T HeadSegmentedSum(T value, Flag head) { return HeadSegmentedReduce(value, head, cub::Sum()); }
    template <class Flag>
    T TailSegmentedSum(T value, Flag tail) { return TailSegmentedReduce(value, tail, cub::Sum()); }
};

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace emulated {

// One thread's values: `in` becomes `out`, which may be the same, or null.
template <class T>
struct ScanPart {
    const T* in;
    T* out;
    int items;
    T aggregate{};
};

// `first` stands before all values; where there is none, the first output of an exclusive scan is left as it is.
template <class T, class Parts, class Operation>
void scan_parts(const Parts& parts, Operation operation, bool inclusive, std::optional<T> first) {
    std::optional<T> running = first, aggregate;
    for (auto* part : parts) {
        for (int i = 0; i < part->items; ++i) {
            T value = part->in[i], next = running ? static_cast<T>(operation(*running, value)) : value;
            if (part->out && (inclusive || running)) part->out[i] = inclusive ? next : *running;
            running = next;
            aggregate = aggregate ? static_cast<T>(operation(*aggregate, value)) : value;
        }
    }
    for (auto* part : parts) part->aggregate = *aggregate;
}

template <unsigned lanes, class T, class Operation>
T scan(const T* in, T* out, int items, Operation operation, bool inclusive, std::optional<T> first) {
    ScanPart<T> own{in, out, items};
    emu::together<lanes>(own, [&](const auto& parts) { scan_parts<T>(parts, operation, inclusive, first); });
    return own.aggregate;
}

}  // namespace emulated

// Each scan by itself, and with the aggregate of all threads; lanes: 0 for a block.
#define EMU_UNPACK(...) __VA_ARGS__
#define EMU_SCAN(lanes, name, head, parameters, data, operation, inclusive, first)                       \
    template <EMU_UNPACK head>                                                                           \
    void name(EMU_UNPACK parameters) {                                                                   \
        emulated::scan<lanes, T>(EMU_UNPACK data, operation, inclusive, first);                          \
    }                                                                                                    \
    template <EMU_UNPACK head>                                                                           \
    void name(EMU_UNPACK parameters, T& aggregate) {                                                     \
        aggregate = emulated::scan<lanes, T>(EMU_UNPACK data, operation, inclusive, first);              \
    }
#define EMU_SCANS(lanes, sum_head, scan_head, in, out, data)                                                           \
    EMU_SCAN(lanes, ExclusiveSum, sum_head, (in, out), data, cub::Sum(), false, T{})                                   \
    EMU_SCAN(lanes, InclusiveSum, sum_head, (in, out), data, cub::Sum(), true, std::nullopt)                           \
    EMU_SCAN(lanes, ExclusiveScan, scan_head, (in, out, Operation operation), data, operation, false, std::nullopt)    \
    EMU_SCAN(lanes, ExclusiveScan, scan_head, (in, out, T first, Operation operation), data, operation, false, first)  \
    EMU_SCAN(lanes, InclusiveScan, scan_head, (in, out, Operation operation), data, operation, true, std::nullopt)

template <class T, int X, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0>
class BlockScan : public emulated::WithStorage<T> {
    // The first warp asks for what stands before the block; thread 0's answer counts.
    template <class Operation, class Prefix>
    void scan_after(Prefix& prefix, const T* in, T* out, int items, Operation operation, bool inclusive) {
        T first = emulated::scan<0, T>(in, nullptr, items, operation, inclusive, std::nullopt);
        if (emu::worker->current().linear < 32) first = prefix(first);
        emulated::ScanPart<T> own{in, out, items, first};
        emu::together(own, [&](const auto& parts) { emulated::scan_parts<T>(parts, operation, inclusive, parts[0]->aggregate); });
    }

public:
    using emulated::WithStorage<T>::WithStorage;
#define EMU_PREFIX_SCAN(name, head, parameters, data, operation, inclusive)                                            \
    template <EMU_UNPACK head, class Prefix>                                                                           \
    void name(EMU_UNPACK parameters, Prefix& prefix) {                                                                 \
        scan_after(prefix, EMU_UNPACK data, operation, inclusive);                                                     \
    }
#define EMU_BLOCK_SCANS(sum_head, scan_head, in, out, data)                                                            \
    EMU_SCANS(0, sum_head, scan_head, in, out, data)                                                                   \
    EMU_PREFIX_SCAN(ExclusiveSum, sum_head, (in, out), data, cub::Sum(), false)                                        \
    EMU_PREFIX_SCAN(InclusiveSum, sum_head, (in, out), data, cub::Sum(), true)                                         \
    EMU_PREFIX_SCAN(ExclusiveScan, scan_head, (in, out, Operation operation), data, operation, false)                  \
    EMU_PREFIX_SCAN(InclusiveScan, scan_head, (in, out, Operation operation), data, operation, true)
    EMU_BLOCK_SCANS((int = 0), (class Operation), T in, T& out, (&in, &out, 1))
    EMU_BLOCK_SCANS((int Items), (int Items, class Operation), T (&in)[Items], T (&out)[Items], (in, out, Items))
#undef EMU_BLOCK_SCANS
#undef EMU_PREFIX_SCAN
    template <int Items, class Operation>
    void InclusiveScan(T (&in)[Items], T (&out)[Items], T first, Operation operation) {
        emulated::scan<0, T>(in, out, Items, operation, true, first);
    }
};

template <class T, int Width = 32, int = 0>
class WarpScan : public emulated::WithStorage<T> {
    static_assert(emulated::is_warp_part<Width>, "the emulated device has cub::WarpScan of 1, 2, 4, 8, 16 or 32 lanes");

public:
    using emulated::WithStorage<T>::WithStorage;
    EMU_SCANS(Width, (int = 0), (class Operation), T in, T& out, (&in, &out, 1))
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
        emu::together<Width>(value, [&](const auto& parts) {
            for (auto* part : parts) *part = T{*parts[source]};
        });
        return value;
    }
};
#undef EMU_SCANS
#undef EMU_SCAN
#undef EMU_UNPACK

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

}  // namespace emulated

template <class Key, int X, int Items, class Value = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0,
          int Y = 1, int Z = 1, int = 0>
class BlockRadixSort : public emulated::WithStorage<Key> {
    void run(Key* keys, Value* values, int begin, int end, bool descending, bool striped) {
        emulated::SortPart<Key, Value> own{keys, values};
        emu::together(own, [&](const auto& parts) {
            auto key_at = [&](size_t i) -> const Key& { return parts[i / Items]->keys[i % Items]; };
            auto order = emulated::radix_order(parts.size() * Items, key_at, begin, end, descending);
            emulated::reorder<Key, Value>(parts, Items, order, striped);
        });
    }
    static constexpr int bits = sizeof(Key) * 8;

public:
    using emulated::WithStorage<Key>::WithStorage;
#define EMU_SORT(name, descending, striped)                                                            \
    void name(Key (&keys)[Items], int begin = 0, int end = bits) {                                     \
        run(keys, nullptr, begin, end, descending, striped);                                           \
    }                                                                                                  \
    void name(Key (&keys)[Items], Value (&values)[Items], int begin = 0, int end = bits) {             \
        run(keys, values, begin, end, descending, striped);                                            \
    }
    EMU_SORT(Sort, false, false)
    EMU_SORT(SortDescending, true, false)
    EMU_SORT(SortBlockedToStriped, false, true)
    EMU_SORT(SortDescendingBlockedToStriped, true, true)
#undef EMU_SORT
};

template <class T, int X, int Y = 1, int Z = 1, int = 0>
class BlockDiscontinuity : public emulated::WithStorage<T> {
    // What the threads before and after hold next to this one's items.
    template <int Items>
    static std::pair<T, T> neighbours(const T (&items)[Items]) {
        std::pair<T, T> own{items[Items - 1], items[0]};
        emu::together(own, [](const auto& parts) {
            for (size_t t = parts.size() - 1; t > 0; --t) parts[t]->first = parts[t - 1]->first;
            for (size_t t = 1; t < parts.size(); ++t) parts[t - 1]->second = parts[t]->second;
        });
        return own;
    }
    static bool is_first() { return emu::worker->current().linear == 0; }
    static bool is_last() { return emu::worker->current().linear == X * Y * Z - 1; }

public:
    using emulated::WithStorage<T>::WithStorage;
    template <int Items, class Flag, class Differ>
    void FlagHeads(Flag (&heads)[Items], T (&items)[Items], Differ differ) {
        T before = neighbours(items).first;
        for (int i = 0; i < Items; ++i) heads[i] = i == 0 ? is_first() || differ(before, items[0]) : differ(items[i - 1], items[i]);
    }
    template <int Items, class Flag, class Differ>
    void FlagHeads(Flag (&heads)[Items], T (&items)[Items], Differ differ, T before_block) {
        FlagHeads(heads, items, differ);
        if (is_first()) heads[0] = differ(before_block, items[0]);
    }
    template <int Items, class Flag, class Differ>
    void FlagTails(Flag (&tails)[Items], T (&items)[Items], Differ differ) {
        T after = neighbours(items).second;
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
