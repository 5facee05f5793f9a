// The C functions for asynchronous copies into shared memory: they are made when the thread waits for them.
#pragma once
#include <cuda_runtime.h>
#include "emu/copy_queue.h"

EMU_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    auto size = static_cast<uint32_t>(bytes);
    if ((size != 4 && size != 8 && size != 16) || zeros > bytes) emu::trap("__pipeline_memcpy_async of other than 4, 8 or 16 bytes");
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes) emu::trap("misaligned address in __pipeline_memcpy_async");
    emu::copy_queue().add(static_cast<char*>(to), static_cast<const char*>(from), size, size - static_cast<uint32_t>(zeros));
}
inline void __pipeline_commit() { emu::copy_queue().commit(); }
EMU_INLINE void __pipeline_wait_prior(size_t open) { emu::copy_queue().wait_group(open); }
