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

    void ExclusiveSum(T in, T& out) { run(&in, &out, 1, cub::Sum(), false, true, T{}); }
    void ExclusiveSum(T in, T& out, T& aggregate) { aggregate = run(&in, &out, 1, cub::Sum(), false, true, T{}); }
    template <class Prefix>
    void ExclusiveSum(T in, T& out, Prefix& prefix) {
        run_with_prefix(&in, &out, 1, cub::Sum(), false, prefix);
    }
    template <int Items>
    void ExclusiveSum(T (&in)[Items], T (&out)[Items]) {
        run(in, out, Items, cub::Sum(), false, true, T{});
    }
    template <int Items>
    void ExclusiveSum(T (&in)[Items], T (&out)[Items], T& aggregate) {
        aggregate = run(in, out, Items, cub::Sum(), false, true, T{});
    }
    template <int Items, class Prefix>
    void ExclusiveSum(T (&in)[Items], T (&out)[Items], Prefix& prefix) {
        run_with_prefix(in, out, Items, cub::Sum(), false, prefix);
    }
    void InclusiveSum(T in, T& out) { run(&in, &out, 1, cub::Sum(), true, false, T{}); }
    void InclusiveSum(T in, T& out, T& aggregate) { aggregate = run(&in, &out, 1, cub::Sum(), true, false, T{}); }
    template <class Prefix>
    void InclusiveSum(T in, T& out, Prefix& prefix) {
        run_with_prefix(&in, &out, 1, cub::Sum(), true, prefix);
    }
    template <int Items>
    void InclusiveSum(T (&in)[Items], T (&out)[Items]) {
        run(in, out, Items, cub::Sum(), true, false, T{});
    }
    template <int Items>
    void InclusiveSum(T (&in)[Items], T (&out)[Items], T& aggregate) {
        aggregate = run(in, out, Items, cub::Sum(), true, false, T{});
    }
    template <int Items, class Prefix>
    void InclusiveSum(T (&in)[Items], T (&out)[Items], Prefix& prefix) {
        run_with_prefix(in, out, Items, cub::Sum(), true, prefix);
    }

    template <class Operation>
    void ExclusiveScan(T in, T& out, Operation operation) {
        run(&in, &out, 1, operation, false, false, T{});
    }
    template <class Operation>
    void ExclusiveScan(T in, T& out, T first, Operation operation) {
        run(&in, &out, 1, operation, false, true, first);
    }
    template <class Operation>
    void ExclusiveScan(T in, T& out, Operation operation, T& aggregate) {
        aggregate = run(&in, &out, 1, operation, false, false, T{});
    }
    template <class Operation>
    void ExclusiveScan(T in, T& out, T first, Operation operation, T& aggregate) {
        aggregate = run(&in, &out, 1, operation, false, true, first);
    }
    template <class Operation, class Prefix>
    void ExclusiveScan(T in, T& out, Operation operation, Prefix& prefix) {
        run_with_prefix(&in, &out, 1, operation, false, prefix);
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&in)[Items], T (&out)[Items], Operation operation) {
        run(in, out, Items, operation, false, false, T{});
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&in)[Items], T (&out)[Items], T first, Operation operation) {
        run(in, out, Items, operation, false, true, first);
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&in)[Items], T (&out)[Items], Operation operation, T& aggregate) {
        aggregate = run(in, out, Items, operation, false, false, T{});
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&in)[Items], T (&out)[Items], T first, Operation operation, T& aggregate) {
        aggregate = run(in, out, Items, operation, false, true, first);
    }
    template <int Items, class Operation, class Prefix>
    void ExclusiveScan(T (&in)[Items], T (&out)[Items], Operation operation, Prefix& prefix) {
        run_with_prefix(in, out, Items, operation, false, prefix);
    }
    template <class Operation>
    void InclusiveScan(T in, T& out, Operation operation) {
        run(&in, &out, 1, operation, true, false, T{});
    }
    template <class Operation>
    void InclusiveScan(T in, T& out, Operation operation, T& aggregate) {
        aggregate = run(&in, &out, 1, operation, true, false, T{});
    }
    template <class Operation, class Prefix>
    void InclusiveScan(T in, T& out, Operation operation, Prefix& prefix) {
        run_with_prefix(&in, &out, 1, operation, true, prefix);
    }
    template <int Items, class Operation>
    void InclusiveScan(T (&in)[Items], T (&out)[Items], Operation operation) {
        run(in, out, Items, operation, true, false, T{});
    }
    template <int Items, class Operation>
    void InclusiveScan(T (&in)[Items], T (&out)[Items], T first, Operation operation) {
        run(in, out, Items, operation, true, true, first);
    }
    template <int Items, class Operation>
    void InclusiveScan(T (&in)[Items], T (&out)[Items], Operation operation, T& aggregate) {
        aggregate = run(in, out, Items, operation, true, false, T{});
    }
    template <int Items, class Operation, class Prefix>
    void InclusiveScan(T (&in)[Items], T (&out)[Items], Operation operation, Prefix& prefix) {
        run_with_prefix(in, out, Items, operation, true, prefix);
    }
};

}  // namespace cub
