// The second body of a kernel (grader_extensions/emulated_cuda/block_loops.py): called once for a block, by its first thread, and not once for each
// thread.  Loops over the threads stand between the barriers; what lives longer has an element for each thread, in the worker's memory.
#pragma once

#include <string.h>

#include <type_traits>

#include "block.h"

#if defined(EMU_SANITIZE) || defined(EMU_PLAIN)
#define EMU_FIRST_BODY {
#else
#define EMU_BLOCK_LOOPS
#define EMU_FIRST_BODY if (!::emu::take_block()) {
#define EMU_BLOCK_VARIABLES                                                   \
    [[maybe_unused]] const uint3 blockIdx = ::blockIdx;                       \
    [[maybe_unused]] const dim3 blockDim = ::blockDim, gridDim = ::gridDim;   \
    ::emu::PerThreadScope emu_scope;
// Thread after thread, so that a race shows.
#define EMU_EACH_THREAD                                                                                                  \
    for (size_t emu_z = 0, emu_row = 0; emu_z < blockDim.z; ++emu_z)                                                     \
        for (size_t emu_y = 0; emu_y < blockDim.y; ++emu_y, emu_row += blockDim.x)                                       \
            for (size_t emu_x = 0, emu_thread = emu_row; emu_x < blockDim.x; ++emu_x, ++emu_thread)
// Where threads write nothing but variables of their own, none depends on another.
#define EMU_EACH_THREAD_ALONE                                                                                            \
    for (size_t emu_z = 0, emu_row = 0; emu_z < blockDim.z; ++emu_z)                                                     \
        for (size_t emu_y = 0; emu_y < blockDim.y; ++emu_y, emu_row += blockDim.x)                                       \
            _Pragma("GCC ivdep") for (size_t emu_x = 0, emu_thread = emu_row; emu_x < blockDim.x; ++emu_x, ++emu_thread)
#define EMU_THREAD_VARIABLES [[maybe_unused]] const uint3 threadIdx{unsigned(emu_x), unsigned(emu_y), unsigned(emu_z)};
#endif

namespace emu EMU_HIDDEN {

// Only where the block's threads meet nobody but each other, and none of them has begun.
inline bool take_block() { return worker && worker->in_kernel() && worker->take_block(); }

struct PerThreadScope {
    size_t used = worker->per_thread_used();
    PerThreadScope() = default;
    PerThreadScope(const PerThreadScope&) = delete;
    ~PerThreadScope() { worker->release_per_thread(used); }
};

// An element for each thread of the block, until the scope ends.
template <class T>
T* per_thread(bool zero = false) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    size_t bytes = sizeof(T) * worker->launch()->threads();
    auto* memory = static_cast<T*>(worker->take_per_thread(bytes, alignof(T)));
    if (zero) memset(static_cast<void*>(memory), 0, bytes);
    return memory;
}

}  // namespace emu
