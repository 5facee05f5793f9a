// cub::BlockRadixSort and BlockMergeSort: stable, by one thread for all.
#pragma once

#include "exchange.h"
#include "scan.h"

namespace cub {

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

template <class Key, int X, int Items, class Value = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int Y = 1,
          int Z = 1, int = 0>
class BlockRadixSort {
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
    using TempStorage = emulated::Storage<Key>;
    BlockRadixSort() = default;
    explicit BlockRadixSort(TempStorage&) {}
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
class BlockMergeSort {
    template <class Less>
    void run(Key* keys, Value* values, Less less, int valid) {
        emulated::SortPart<Key, Value> own{keys, values};
        emu::block_together(own, [&](const auto& parts) {
            std::vector<uint32_t> order(parts.size() * Items);
            for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
            auto key_at = [&](uint32_t i) -> const Key& { return parts[i / Items]->keys[i % Items]; };
            auto last = valid < static_cast<int>(order.size()) ? order.begin() + valid : order.end();
            std::stable_sort(order.begin(), last, [&](uint32_t a, uint32_t b) { return less(key_at(a), key_at(b)); });
            emulated::reorder<Key, Value>(parts, Items, order, false);
        });
    }
    static constexpr int all = X * Y * Z * Items;

public:
    using TempStorage = emulated::Storage<Key>;
    BlockMergeSort() = default;
    explicit BlockMergeSort(TempStorage&) {}
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

}  // namespace cub
