// The one emulated device and what it says of itself.  Limits are those of a real data-centre GPU, because launches
// are checked against them; the number of multiprocessors is small, because blocks run on a few cores.
#pragma once

#include <string.h>

#include "launch.h"
#include "texture.h"

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, sharedMemPerBlockOptin, totalConstMem, memPitch;
    int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
    int clockRate, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
    int concurrentKernels, asyncEngineCount, unifiedAddressing, managedMemory, cooperativeLaunch, canMapHostMemory, integrated;
    size_t textureAlignment, texturePitchAlignment;
    int maxTexture1DLinear, ECCEnabled, computeMode, pciBusID, pciDeviceID, pciDomainID;
};

// Every attribute: its name, its number, and the property that has its value.
#define EMU_ATTRIBUTES \
    EMU_ATTRIBUTE(cudaDevAttrMaxThreadsPerBlock, 1, p.maxThreadsPerBlock)                        \
    EMU_ATTRIBUTE(cudaDevAttrMaxBlockDimX, 2, p.maxThreadsDim[0])                                \
    EMU_ATTRIBUTE(cudaDevAttrMaxBlockDimY, 3, p.maxThreadsDim[1])                                \
    EMU_ATTRIBUTE(cudaDevAttrMaxBlockDimZ, 4, p.maxThreadsDim[2])                                \
    EMU_ATTRIBUTE(cudaDevAttrMaxGridDimX, 5, p.maxGridSize[0])                                   \
    EMU_ATTRIBUTE(cudaDevAttrMaxGridDimY, 6, p.maxGridSize[1])                                   \
    EMU_ATTRIBUTE(cudaDevAttrMaxGridDimZ, 7, p.maxGridSize[2])                                   \
    EMU_ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerBlock, 8, p.sharedMemPerBlock)                    \
    EMU_ATTRIBUTE(cudaDevAttrWarpSize, 10, p.warpSize)                                           \
    EMU_ATTRIBUTE(cudaDevAttrMaxRegistersPerBlock, 12, p.regsPerBlock)                           \
    EMU_ATTRIBUTE(cudaDevAttrClockRate, 13, p.clockRate)                                         \
    EMU_ATTRIBUTE(cudaDevAttrTextureAlignment, 14, p.textureAlignment)                           \
    EMU_ATTRIBUTE(cudaDevAttrMultiProcessorCount, 16, p.multiProcessorCount)                     \
    EMU_ATTRIBUTE(cudaDevAttrL2CacheSize, 38, p.l2CacheSize)                                     \
    EMU_ATTRIBUTE(cudaDevAttrMaxThreadsPerMultiProcessor, 39, p.maxThreadsPerMultiProcessor)     \
    EMU_ATTRIBUTE(cudaDevAttrTexturePitchAlignment, 51, p.texturePitchAlignment)                 \
    EMU_ATTRIBUTE(cudaDevAttrComputeCapabilityMajor, 75, p.major)                                \
    EMU_ATTRIBUTE(cudaDevAttrComputeCapabilityMinor, 76, p.minor)                                \
    EMU_ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, p.sharedMemPerMultiprocessor) \
    EMU_ATTRIBUTE(cudaDevAttrCooperativeLaunch, 95, p.cooperativeLaunch)                         \
    EMU_ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, p.sharedMemPerBlockOptin)         \
    EMU_ATTRIBUTE(cudaDevAttrMaxBlocksPerMultiprocessor, 106, p.maxBlocksPerMultiProcessor)
#define EMU_ATTRIBUTE(name, number, value) name = number,
enum cudaDeviceAttr { EMU_ATTRIBUTES };
#undef EMU_ATTRIBUTE

enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize };
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
    p.maxTexture1DLinear = max_texture_1d_linear;
    p.memoryBusWidth = 64;
    p.l2CacheSize = 1 << 20;
    p.concurrentKernels = p.asyncEngineCount = p.unifiedAddressing = p.managedMemory = p.canMapHostMemory = p.cooperativeLaunch = 1;
    return p;
}

inline int attribute(cudaDeviceAttr which) {
    cudaDeviceProp p = device_properties();
#define EMU_ATTRIBUTE(name, number, value) \
    case name: return static_cast<int>(value);
    switch (which) { EMU_ATTRIBUTES }
#undef EMU_ATTRIBUTE
    return 0;
}

}  // namespace emu

inline cudaError_t cudaGetDeviceCount(int* count) { return emu::answer(count, 1); }
inline cudaError_t cudaGetDevice(int* device) { return emu::answer(device, 0); }
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : emu::report(cudaErrorInvalidDevice); }
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
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
inline cudaError_t cudaRuntimeGetVersion(int* version) { return emu::answer(version, CUDART_VERSION); }
inline cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int threads, size_t dynamic_bytes) {
    if (threads <= 0 || threads > 1024) return emu::report(cudaErrorInvalidValue);
    return emu::answer(blocks, static_cast<int>(emu::blocks_at_once(static_cast<unsigned>(threads), dynamic_bytes)));
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Kernel, size_t = 0, int limit = 0) {
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = emu::device_properties().multiProcessorCount * (2048 / *block);
    return cudaSuccess;
}
