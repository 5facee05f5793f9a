// cub::BlockHistogram, BlockDiscontinuity and BlockAdjacentDifference.
#pragma once

#include "../types.h"
#include "../../emu/libraries/together.h"

namespace cub {

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int = 0>
class BlockHistogram {
public:
    using TempStorage = emulated::Storage<T>;
    BlockHistogram() = default;
    explicit BlockHistogram(TempStorage&) {}
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
class BlockDiscontinuity {
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
    using TempStorage = emulated::Storage<T>;
    BlockDiscontinuity() = default;
    explicit BlockDiscontinuity(TempStorage&) {}
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
