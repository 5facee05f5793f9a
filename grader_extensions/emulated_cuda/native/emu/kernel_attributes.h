// What cudaFuncSetAttribute remembers about a kernel.  A kernel is known by the function that EMU_KERNEL_ENTRY stands
// in: asking for its identity calls it in probe mode, where the first statement answers and returns.
#pragma once

#include "block.h"
#include "error.h"

namespace emu EMU_HIDDEN {

inline EMU_THREAD_LOCAL bool probing = false;
inline EMU_THREAD_LOCAL const char* probed = nullptr;

// What __cluster_dims__ of the probed kernel says; whether any kernel has it.
inline EMU_THREAD_LOCAL unsigned probed_cluster[3] = {1, 1, 1};
inline bool any_cluster = false;

#define EMU_CLUSTER_ENTRY(...)                              \
    if (::emu::probing) [[unlikely]] {                      \
        const dim3 emu_cluster(__VA_ARGS__);                \
        ::emu::probed_cluster[0] = emu_cluster.x;           \
        ::emu::probed_cluster[1] = emu_cluster.y;           \
        ::emu::probed_cluster[2] = emu_cluster.z;           \
    }                                                       \
    EMU_KERNEL_ENTRY

// __PRETTY_FUNCTION__ is one array for each instantiation of a template, so its address is the identity.
#define EMU_KERNEL_ENTRY                             \
    if (::emu::probing) [[unlikely]] {               \
        ::emu::probed = __PRETTY_FUNCTION__;         \
        return;                                      \
    }

template <class Call>
const char* probe(Call call) {
    probing = true;
    probed = nullptr;
    call();
    probing = false;
    return probed;
}

struct KernelAttributes {
    const char* kernel;
    size_t dynamic_shared_bytes;
};

inline std::vector<KernelAttributes> kernel_attributes;
inline bool any_shared_limit_raised = false;

size_t shared_limit_of(const Launch& launch);
dim3 cluster_of(const Launch& launch);
KernelAttributes& attributes_of(const void* function);

}  // namespace emu

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 13,
};
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxShared = 100, cudaSharedmemCarveoutMaxL1 = 0 };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte };
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, preferredShmemCarveout;
};

inline cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > emu::max_shared_bytes) return emu::report(cudaErrorInvalidValue);
    emu::attributes_of(function).dynamic_shared_bytes = static_cast<size_t>(value);
    emu::any_shared_limit_raised = true;
    return cudaSuccess;
}
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
    *out = {0, 0, 0, 1024, 32, 90, 90, 0, static_cast<int>(emu::attributes_of(function).dynamic_shared_bytes), -1};
    return cudaSuccess;
}
inline cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) { return cudaSuccess; }

template <class R, class... P>
cudaError_t cudaFuncSetAttribute(R (*function)(P...), cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
template <class R, class... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, R (*function)(P...)) {
    return cudaFuncGetAttributes(out, reinterpret_cast<const void*>(function));
}
template <class R, class... P>
cudaError_t cudaFuncSetCacheConfig(R (*)(P...), cudaFuncCache) { return cudaSuccess; }
template <class R, class... P>
cudaError_t cudaFuncSetSharedMemConfig(R (*)(P...), cudaSharedMemConfig) { return cudaSuccess; }
