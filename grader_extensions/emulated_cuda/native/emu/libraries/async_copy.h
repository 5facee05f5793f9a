// The copies of cuda::memcpy_async: each thread of the group does its share at once.  What another thread copies is there after the wait.
#pragma once

#include <cuda_runtime.h>

namespace emu EMU_HIDDEN {

template <class Unit>
void copy_units(char* to, const char* from, size_t bytes, size_t rank, size_t count) {
    for (size_t at = rank * sizeof(Unit); at < bytes; at += count * sizeof(Unit)) memcpy(to + at, from + at, sizeof(Unit));
}

inline void copy_share(void* to, const void* from, size_t bytes, size_t rank, size_t count) {
    auto* target = static_cast<char*>(to);
    auto* source = static_cast<const char*>(from);
    if (bytes % 16 == 0) return copy_units<uint4>(target, source, bytes, rank, count);
    if (bytes % 4 == 0) return copy_units<unsigned>(target, source, bytes, rank, count);
    copy_units<char>(target, source, bytes, rank, count);
}

}  // namespace emu

namespace cuda {

// A size in bytes that is a multiple of Alignment, of addresses that are too.
template <size_t Alignment>
struct aligned_size_t {
    static_assert(Alignment > 0 && (Alignment & (Alignment - 1)) == 0, "an alignment is a power of two");
    static constexpr size_t align = Alignment;
    size_t value;
    explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
    constexpr operator size_t() const { return value; }
};

enum class async_contract_fulfillment { none, async };

}  // namespace cuda
