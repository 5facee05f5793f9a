// Device memory: every allocation ends at an unmapped page and starts out as NaN, so that neither running over its end
// nor reading what was never written goes unseen.
#pragma once

#include <pthread.h>

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
        EMU_TELL(mark_initialised(to, bytes));
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
        EMU_TELL(mark_initialised(to, bytes));
    });
    return cudaSuccess;
}

}  // namespace emu

// The runtime's memory calls.  Those that allocate have a typed form too.
#define EMU_UNPACK(...) __VA_ARGS__
#define EMU_ALLOCATES(name, parameters)                                                                                   \
    inline cudaError_t name(void** out, size_t bytes EMU_UNPACK parameters) { return emu::allocate(out, bytes); }         \
    template <class T>                                                                                                    \
    cudaError_t name(T** out, size_t bytes EMU_UNPACK parameters) { return emu::allocate(reinterpret_cast<void**>(out), bytes); }
EMU_ALLOCATES(cudaMalloc, ())
EMU_ALLOCATES(cudaMallocManaged, (, unsigned = cudaMemAttachGlobal))
EMU_ALLOCATES(cudaMallocHost, (, unsigned = 0))
EMU_ALLOCATES(cudaHostAlloc, (, unsigned))
EMU_ALLOCATES(cudaMallocAsync, (, cudaStream_t))
#undef EMU_ALLOCATES
template <class T>
cudaError_t cudaMallocPitch(T** out, size_t* pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return emu::allocate(reinterpret_cast<void**>(out), *pitch * height);
}

inline cudaError_t cudaFree(void* address) { return emu::release(address); }
inline cudaError_t cudaFreeHost(void* address) { return emu::release(address); }
inline cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return emu::release(address); }
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
inline cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned) { return emu::answer(out, host); }
inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    *total_bytes = *free_bytes = emu::physical_bytes();  // what is free on the host is not told
    return cudaSuccess;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* address) {
    bool device = emu::is_allocated(address);
    auto* pointer = const_cast<void*>(address);
    *out = {device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered, device ? 0 : -1, device ? pointer : nullptr, pointer};
    return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) { return cudaSuccess; }

// A call at once, and the same in a stream.
#define EMU_ALSO_ASYNC(name, parameters, call)                                                                       \
    inline cudaError_t name##Async(EMU_UNPACK parameters, cudaStream_t stream = nullptr) { return emu::call; }       \
    inline cudaError_t name(EMU_UNPACK parameters) {                                                                 \
        constexpr cudaStream_t stream = nullptr;                                                                     \
        return emu::call;                                                                                            \
    }
EMU_ALSO_ASYNC(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind), copy(to, from, bytes, kind, stream))
EMU_ALSO_ASYNC(cudaMemcpy2D,
               (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind),
               copy_rows(to, to_pitch, from, from_pitch, width, height, stream))
EMU_ALSO_ASYNC(cudaMemset, (void* to, int value, size_t bytes), fill(to, value, bytes, stream))
#undef EMU_ALSO_ASYNC
#undef EMU_UNPACK
inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) { return emu::copy(to, from, bytes, cudaMemcpyDefault); }
inline cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
    for (size_t row = 0; row < height; ++row) {
        memset(static_cast<char*>(to) + row * pitch, value, width);
        EMU_TELL(mark_initialised(static_cast<char*>(to) + row * pitch, width));
    }
    return cudaSuccess;
}

// A symbol is the variable itself: the host and the device see the same one.
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
    if (offset + bytes > sizeof symbol) return emu::report(cudaErrorInvalidValue);
    return emu::copy(const_cast<char*>(reinterpret_cast<const volatile char*>(&symbol)) + offset, from, bytes, cudaMemcpyDefault);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind, cudaStream_t stream = nullptr) {
    if (offset + bytes > sizeof symbol) return emu::report(cudaErrorInvalidValue);
    return emu::copy(const_cast<char*>(reinterpret_cast<const volatile char*>(&symbol)) + offset, from, bytes, cudaMemcpyDefault, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    if (offset + bytes > sizeof symbol) return emu::report(cudaErrorInvalidValue);
    return emu::copy(to, const_cast<const char*>(reinterpret_cast<const volatile char*>(&symbol)) + offset, bytes, cudaMemcpyDefault);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** out, const T& symbol) {
    return emu::answer(out, const_cast<void*>(static_cast<const volatile void*>(&symbol)));
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* out, const T& symbol) { return emu::answer(out, sizeof symbol); }
