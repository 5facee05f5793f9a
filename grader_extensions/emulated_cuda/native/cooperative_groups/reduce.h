// Reductions over a tile or a coalesced group.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

// In the order of the ranks halved, as the device's own tree does it.
template <class Group, class T, class Operation>
T reduce(const Group& group, T value, Operation operation) {
    unsigned count = group.num_threads(), rank = group.thread_rank();
    for (unsigned step = 1; step < count; step *= 2) {
        T other = group.shfl_down(value, step);
        if (rank + step < count) value = operation(value, other);
    }
    return group.shfl(value, 0);
}

}  // namespace cooperative_groups
