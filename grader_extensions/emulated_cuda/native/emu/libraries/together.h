// Operations of a block or of lanes of a warp: each thread says where its part lies, one thread does the work for all, and all go on.
// The threads' stacks are the memory that they exchange through, so nothing lies in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <vector>

namespace emu EMU_HIDDEN {

// By the thread's number in its block; of the one block that runs on this OS thread.
inline EMU_THREAD_LOCAL void** shown_parts = nullptr;

inline void** parts() {
    if (!shown_parts) shown_parts = static_cast<void**>(calloc(max_threads, sizeof(void*)));
    return shown_parts;
}

template <class Part>
using Parts = std::vector<Part*>;

// Threads first to first + count that take part, in the order of their numbers.
template <class Part>
Parts<Part> collect_parts(unsigned first, unsigned count) {
    Parts<Part> found;
    found.reserve(count);
    for (unsigned at = first; at < first + count; ++at)
        if (void* part = parts()[at]) found.push_back(static_cast<Part*>(part));
    return found;
}

inline bool is_first_of(unsigned first, unsigned self) {
    for (unsigned at = first; at < self; ++at)
        if (parts()[at]) return false;
    return true;
}

// `work(parts)` runs once, when every thread of the block has come.
template <class Part, class Work>
void block_together(Part& own, Work work) {
    unsigned self = worker->current().linear;
    parts()[self] = &own;
    __syncthreads();
    if (is_first_of(0, self)) work(collect_parts<Part>(0, worker->launch()->threads()));
    __syncthreads();
    parts()[self] = nullptr;
}

// The same for the `width` lanes, a power of two, that this one is among.
template <class Part, class Work>
void lanes_together(unsigned width, Part& own, Work work) {
    unsigned self = worker->current().linear, first = self & ~(width - 1);
    unsigned mask = (width == 32 ? ~0u : (1u << width) - 1) << (first % 32);
    parts()[self] = &own;
    __syncwarp(mask);
    if (is_first_of(first, self)) work(collect_parts<Part>(first, width));
    __syncwarp(mask);
    parts()[self] = nullptr;
}

}  // namespace emu
