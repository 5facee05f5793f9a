// Copies by a group: the threads share the work, and it is done when they next meet.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {

template <class Group, class T>
void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
    for (size_t at = group.thread_rank(); at < bytes; at += group.num_threads())
        reinterpret_cast<char*>(to)[at] = reinterpret_cast<const char*>(from)[at];
}
template <class Group>
void wait(const Group& group) {
    group.sync();
}

}  // namespace cooperative_groups
