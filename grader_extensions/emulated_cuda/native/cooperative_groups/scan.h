// Running reductions over a tile or a coalesced group, in the steps of the device's own scan.
#pragma once
#include <cooperative_groups/reduce.h>

namespace cooperative_groups {

template <class Group, class T, class Operation = plus<T>>
T inclusive_scan(const Group& group, T value, Operation operation = {}) {
    for (unsigned step = 1; step < group.num_threads(); step *= 2) {
        T other = group.shfl_up(value, step);
        if (step <= group.thread_rank()) value = operation(value, other);
    }
    return value;
}
// The first thread gets T{}, whatever the operation.
template <class Group, class T, class Operation = plus<T>>
T exclusive_scan(const Group& group, T value, Operation operation = {}) {
    T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
    return group.thread_rank() == 0 ? T{} : before;
}

}  // namespace cooperative_groups
