// The runtime's memory calls, each with its typed form where CUDA has one.
#pragma once

#include "memory.h"

inline cudaError_t cudaMalloc(void** out, size_t bytes) { return emu::allocate(out, bytes); }
inline cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned = cudaMemAttachGlobal) { return emu::allocate(out, bytes); }
inline cudaError_t cudaMallocHost(void** out, size_t bytes, unsigned = 0) { return emu::allocate(out, bytes); }
inline cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) { return emu::allocate(out, bytes); }
inline cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t) { return emu::allocate(out, bytes); }
inline cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return emu::allocate(out, *pitch * height);
}
template <class T>
cudaError_t cudaMalloc(T** out, size_t bytes) {
    return emu::allocate(reinterpret_cast<void**>(out), bytes);
}
template <class T>
cudaError_t cudaMallocManaged(T** out, size_t bytes, unsigned = cudaMemAttachGlobal) {
    return emu::allocate(reinterpret_cast<void**>(out), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** out, size_t bytes, unsigned = 0) {
    return emu::allocate(reinterpret_cast<void**>(out), bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** out, size_t bytes, unsigned) {
    return emu::allocate(reinterpret_cast<void**>(out), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** out, size_t bytes, cudaStream_t) {
    return emu::allocate(reinterpret_cast<void**>(out), bytes);
}
template <class T>
cudaError_t cudaMallocPitch(T** out, size_t* pitch, size_t width, size_t height) {
    return cudaMallocPitch(reinterpret_cast<void**>(out), pitch, width, height);
}

inline cudaError_t cudaFree(void* address) { return emu::release(address); }
inline cudaError_t cudaFreeHost(void* address) { return emu::release(address); }
inline cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return emu::release(address); }
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
inline cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned) {
    *out = host;
    return cudaSuccess;
}
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

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) { return emu::copy(to, from, bytes, kind); }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    return emu::copy(to, from, bytes, kind, stream);
}
inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) { return emu::copy(to, from, bytes, cudaMemcpyDefault); }
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind) {
    return emu::copy_rows(to, to_pitch, from, from_pitch, width, height, nullptr);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                                     cudaMemcpyKind, cudaStream_t stream = nullptr) {
    return emu::copy_rows(to, to_pitch, from, from_pitch, width, height, stream);
}
inline cudaError_t cudaMemset(void* to, int value, size_t bytes) { return emu::fill(to, value, bytes); }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream = nullptr) {
    return emu::fill(to, value, bytes, stream);
}
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
    *out = const_cast<void*>(static_cast<const volatile void*>(&symbol));
    return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* out, const T& symbol) {
    *out = sizeof symbol;
    return cudaSuccess;
}
