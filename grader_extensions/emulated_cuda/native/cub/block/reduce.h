// cub::BlockReduce.
#pragma once

#include "../types.h"
#include "../../emu/libraries/together.h"

namespace cub {

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
class BlockReduce {
public:
    using TempStorage = emulated::Storage<T>;
    BlockReduce() = default;
    explicit BlockReduce(TempStorage&) {}

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

}  // namespace cub
