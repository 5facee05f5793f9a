// Copies by a group: the threads share the work, and it is done when they next meet.
#pragma once
#include <cooperative_groups.h>

#include "../emu/libraries/async_copy.h"

namespace cooperative_groups {

template <class Group, class T, class Size>
void memcpy_async(const Group& group, T* to, const T* from, Size bytes) {
    emu::copy_share(to, from, bytes, group.thread_rank(), group.num_threads());
}
// Counts of elements; as many are copied as both sides have.
template <class Group, class T, class ToCount, class FromCount>
void memcpy_async(const Group& group, T* to, ToCount to_count, const T* from, FromCount from_count) {
    size_t count = static_cast<size_t>(to_count) < static_cast<size_t>(from_count) ? static_cast<size_t>(to_count) : static_cast<size_t>(from_count);
    emu::copy_share(to, from, count * sizeof(T), group.thread_rank(), group.num_threads());
}
template <class Group>
void wait(const Group& group) { group.sync(); }
template <unsigned Stages, class Group>
void wait_prior(const Group& group) { group.sync(); }

}  // namespace cooperative_groups
