// The one emulated device and what it says of itself.  Limits are those of a real data-centre GPU, because launches
// are checked against them; the number of multiprocessors is small, because blocks run on a few cores.
#pragma once

#include <string.h>

#include "kernel_attributes.h"
#include "cuda_array.h"

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, sharedMemPerBlockOptin, totalConstMem, memPitch;
    int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
    int clockRate, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
    int concurrentKernels, asyncEngineCount, unifiedAddressing, managedMemory, cooperativeLaunch, canMapHostMemory, integrated;
    size_t textureAlignment, texturePitchAlignment;
    int maxTexture1D, maxTexture1DLinear, maxTexture2D[2], maxTexture2DLinear[3], maxTexture3D[3];
    int ECCEnabled, computeMode, pciBusID, pciDeviceID, pciDomainID;
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrClockRate = 13,
    cudaDevAttrTextureAlignment = 14,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrTexturePitchAlignment = 51,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106,
};

enum cudaLimit {
    cudaLimitStackSize,
    cudaLimitPrintfFifoSize,
    cudaLimitMallocHeapSize,
    cudaLimitDevRuntimeSyncDepth,
    cudaLimitDevRuntimePendingLaunchCount,
};
#define cudaDeviceScheduleAuto 0
#define cudaDeviceMapHost 8

namespace emu EMU_HIDDEN {

inline cudaDeviceProp device_properties() {
    cudaDeviceProp p{};
    strcpy(p.name, "emulated device");
    p.totalGlobalMem = physical_bytes();
    p.sharedMemPerBlock = default_shared_bytes;
    p.sharedMemPerMultiprocessor = max_shared_bytes + 1024;
    p.sharedMemPerBlockOptin = max_shared_bytes;
    p.totalConstMem = 65536;
    p.memPitch = 2147483647;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 2147483647;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.major = 9;
    p.minor = 0;
    p.multiProcessorCount = 8;
    p.maxThreadsPerMultiProcessor = 2048;
    p.maxBlocksPerMultiProcessor = 32;
    p.clockRate = p.memoryClockRate = 1000000;
    p.textureAlignment = texture_alignment;
    p.texturePitchAlignment = texture_pitch_alignment;
    p.maxTexture1D = max_texture_1d;
    p.maxTexture1DLinear = max_texture_1d_linear;
    for (int i = 0; i < 2; ++i) p.maxTexture2D[i] = static_cast<int>(max_texture_2d[i]);
    for (int i = 0; i < 3; ++i) p.maxTexture2DLinear[i] = static_cast<int>(max_texture_2d_linear[i]), p.maxTexture3D[i] = max_texture_3d;
    p.memoryBusWidth = 64;
    p.l2CacheSize = 1 << 20;
    p.concurrentKernels = p.asyncEngineCount = p.unifiedAddressing = p.managedMemory = p.canMapHostMemory = p.cooperativeLaunch = 1;
    return p;
}

inline int attribute(cudaDeviceAttr which) {
    cudaDeviceProp p = device_properties();
    switch (which) {
        case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
        case cudaDevAttrMaxBlockDimX: return p.maxThreadsDim[0];
        case cudaDevAttrMaxBlockDimY: return p.maxThreadsDim[1];
        case cudaDevAttrMaxBlockDimZ: return p.maxThreadsDim[2];
        case cudaDevAttrMaxGridDimX: return p.maxGridSize[0];
        case cudaDevAttrMaxGridDimY: return p.maxGridSize[1];
        case cudaDevAttrMaxGridDimZ: return p.maxGridSize[2];
        case cudaDevAttrMaxSharedMemoryPerBlock: return static_cast<int>(p.sharedMemPerBlock);
        case cudaDevAttrWarpSize: return p.warpSize;
        case cudaDevAttrMaxRegistersPerBlock: return p.regsPerBlock;
        case cudaDevAttrClockRate: return p.clockRate;
        case cudaDevAttrTextureAlignment: return static_cast<int>(p.textureAlignment);
        case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
        case cudaDevAttrL2CacheSize: return p.l2CacheSize;
        case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
        case cudaDevAttrTexturePitchAlignment: return static_cast<int>(p.texturePitchAlignment);
        case cudaDevAttrComputeCapabilityMajor: return p.major;
        case cudaDevAttrComputeCapabilityMinor: return p.minor;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return static_cast<int>(p.sharedMemPerMultiprocessor);
        case cudaDevAttrCooperativeLaunch: return p.cooperativeLaunch;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return static_cast<int>(p.sharedMemPerBlockOptin);
        case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
    }
    return 0;
}

}  // namespace emu

inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : emu::report(cudaErrorInvalidDevice); }
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    if (limit == cudaLimitDevRuntimePendingLaunchCount) emu::most_pending_launches = value;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
    if (device != 0) return emu::report(cudaErrorInvalidDevice);
    *out = emu::device_properties();
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int device) {
    if (device != 0) return emu::report(cudaErrorInvalidDevice);
    *out = emu::attribute(which);
    return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int threads, size_t dynamic_bytes) {
    if (threads <= 0 || threads > 1024) return emu::report(cudaErrorInvalidValue);
    int by_threads = 2048 / threads, by_memory = static_cast<int>((emu::max_shared_bytes + 1024) / (dynamic_bytes + 1024));
    *blocks = by_threads < by_memory ? (by_threads < 32 ? by_threads : 32) : by_memory;
    return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Kernel, size_t = 0, int limit = 0) {
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = emu::device_properties().multiProcessorCount * (2048 / *block);
    return cudaSuccess;
}
