// Device memory: every allocation ends at an unmapped page and starts out as NaN, so that neither running over its end
// nor reading what was never written goes unseen.
#pragma once

#include <pthread.h>

#include "fault.h"
#include "stream.h"

enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
};
typedef struct CUmemPoolHandle_st* cudaMemPool_t;
#define cudaHostAllocDefault 0
#define cudaHostAllocPortable 1
#define cudaHostAllocMapped 2
#define cudaHostAllocWriteCombined 4
#define cudaHostRegisterDefault 0
#define cudaMemAttachGlobal 1
#define cudaMemAttachHost 2

namespace emu EMU_HIDDEN {

struct Allocation {
    char* address;
    size_t bytes;
    std::unique_ptr<GuardedMemory> memory;
};

inline std::vector<Allocation> allocations;
inline pthread_mutex_t allocations_mutex = PTHREAD_MUTEX_INITIALIZER;

// Not by sysconf, which asks sysinfo: a box refuses that, and glibc then returns what lies on the stack.
inline size_t physical_bytes() {
    static const size_t bytes = [] {
        unsigned long kilobytes = 0;
        if (FILE* file = fopen("/proc/meminfo", "r")) {
            if (fscanf(file, "MemTotal: %lu", &kilobytes) != 1) kilobytes = 0;
            fclose(file);
        }
        return kilobytes ? size_t{kilobytes} * 1024 : size_t{16} << 30;  // a box made from an image has an empty file
    }();
    return bytes;
}

inline cudaError_t allocate(void** out, size_t bytes) {
    if (!out) return report(cudaErrorInvalidValue);
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > physical_bytes()) return report(cudaErrorMemoryAllocation);
    auto memory = std::make_unique<GuardedMemory>(bytes);
    if (!*memory) return report(cudaErrorMemoryAllocation);
    char* address = memory->end() - (bytes + 15) / 16 * 16;
    fill_poison(address, (bytes + 15) / 16 * 16);
    pthread_mutex_lock(&allocations_mutex);
    allocations.push_back({address, bytes, std::move(memory)});
    pthread_mutex_unlock(&allocations_mutex);
    EMU_TELL(memory_allocated(address, bytes));
    *out = address;
    return cudaSuccess;
}

// After this the pages are gone: a use after free is a fault too.
inline cudaError_t release(void* address) {
    if (!address) return cudaSuccess;
    cudaError_t result = cudaErrorInvalidValue;
    pthread_mutex_lock(&allocations_mutex);
    for (size_t i = allocations.size(); i-- > 0;) {
        if (allocations[i].address != address) continue;
        EMU_TELL(memory_released(address));
        std::swap(allocations[i], allocations.back());
        allocations.pop_back();
        result = cudaSuccess;
        break;
    }
    pthread_mutex_unlock(&allocations_mutex);
    return report(result);
}

inline bool is_allocated(const void* address) {
    pthread_mutex_lock(&allocations_mutex);
    bool found = false;
    for (const Allocation& entry : allocations) found |= address >= entry.address && address < entry.address + entry.bytes;
    pthread_mutex_unlock(&allocations_mutex);
    return found;
}

inline cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return report(cudaErrorInvalidMemcpyDirection);
    if (bytes && (!to || !from)) return report(cudaErrorInvalidValue);
    enqueue(stream, [=] {
        if (bytes) memmove(to, from, bytes);
        EMU_TELL(host_wrote(to, bytes));
    });
    return cudaSuccess;
}

inline cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaStream_t stream) {
    if (width > to_pitch || width > from_pitch) return report(cudaErrorInvalidPitchValue);
    enqueue(stream, [=] {
        for (size_t row = 0; row < height; ++row)
            memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
    });
    return cudaSuccess;
}

inline cudaError_t fill(void* to, int value, size_t bytes, cudaStream_t stream = nullptr) {
    if (bytes && !to) return report(cudaErrorInvalidValue);
    enqueue(stream, [=] {
        if (bytes) memset(to, value, bytes);
        EMU_TELL(host_wrote(to, bytes));
    });
    return cudaSuccess;
}

}  // namespace emu

#include "memory_api.h"
