// cub::BlockScan.
#pragma once

#include "../types.h"
#include "../../emu/libraries/together.h"

namespace cub {

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
class BlockScan {
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
    using TempStorage = emulated::Storage<T>;
    BlockScan() = default;
    explicit BlockScan(TempStorage&) {}

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

}  // namespace cub
