// `emu_` stands before every name that a rewritten line uses, lest it be the parameter of a user's macro.
// What `k<16><<<grid, block, bytes, stream>>>(arguments)` is rewritten to, with the checks that the real launch makes.
//
//     ::emu::emu_kernel(EMU_NAME(k<16>), [&](const auto&... emu_args) { k<16>(emu_args...); }).emu_on(grid, block)(a, b);
#pragma once

#include <utility>

#include "block.h"
#include "error.h"
#include "stream.h"

// What cudaFuncSetAttribute remembers about a kernel.  A kernel is known by the function that EMU_KERNEL_ENTRY stands
// in: asking for its identity calls it in probe mode, where the first statement answers and returns.
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

// How many blocks a multiprocessor holds, by their threads and their shared memory.
inline unsigned blocks_at_once(unsigned threads, size_t dynamic_bytes) {
    size_t by_memory = (max_shared_bytes + 1024) / (dynamic_bytes + 1024);
    return static_cast<unsigned>(std::min(std::min(size_t{2048 / threads}, by_memory), size_t{32}));
}

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

// A kernel is given as a function or as its address.
template <class Function>
cudaError_t cudaFuncSetAttribute(Function* function, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > emu::max_shared_bytes) return emu::report(cudaErrorInvalidValue);
    emu::attributes_of(reinterpret_cast<const void*>(function)).dynamic_shared_bytes = static_cast<size_t>(value);
    emu::any_shared_limit_raised = true;
    return cudaSuccess;
}
template <class Function>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, Function* function) {
    const emu::KernelAttributes& attributes = emu::attributes_of(reinterpret_cast<const void*>(function));
    *out = {0, 0, 0, 1024, 32, 90, 90, 0, static_cast<int>(attributes.dynamic_shared_bytes), -1};
    return cudaSuccess;
}
template <class Function>
cudaError_t cudaFuncSetCacheConfig(Function*, cudaFuncCache) { return cudaSuccess; }
template <class Function>
cudaError_t cudaFuncSetSharedMemConfig(Function*, cudaSharedMemConfig) { return cudaSuccess; }

#define EMU_NAME(...) #__VA_ARGS__

namespace emu EMU_HIDDEN {

cudaError_t run_launch(Launch launch);

template <class Body>
struct Configured {
    const char* name;
    const Body& body;
    dim3 grid, block;
    size_t dynamic_bytes;
    cudaStream_t stream;
    dim3 cluster{1, 1, 1};
    bool cooperative = false;

    template <class... Args>
    EMU_INLINE void operator()(const Args&... args) const {
        EMU_TELL(launch_here());
        auto call = [body = body, args...] { body(args...); };
        using Call = decltype(call);
        Launch launch{name, [](const void* opaque) { (*static_cast<const Call*>(opaque))(); }, &call, grid, block, dynamic_bytes,
                      default_shared_bytes, cluster, cooperative};
        // More than every kernel may have has to be requested for this kernel first; only then is it worth looking up.
        if (any_shared_limit_raised) launch.shared_limit = shared_limit_of(launch);
        if (any_cluster && cluster.x * cluster.y * cluster.z == 1) launch.cluster = cluster_of(launch);
        enqueue(stream, [launch, call]() mutable {
            launch.call = &call;
            run_launch(launch);
        });
    }
};

template <class Body>
struct Kernel {
    const char* name;
    Body body;

    Configured<Body> emu_on(dim3 grid, dim3 block, size_t dynamic_bytes = 0, cudaStream_t stream = nullptr) const {
        return {name, body, grid, block, dynamic_bytes, stream};
    }
};

template <class Body>
Kernel<Body> emu_kernel(const char* name, Body body) { return {name, body}; }

// cudaLaunchKernel hands arguments over as addresses; the kernel's own type says what lies there.
template <class... P, size_t... I>
cudaError_t launch_with(void** args, const Configured<void (*)(P...)>& launch, std::index_sequence<I...>) {
    launch(*static_cast<std::remove_cv_t<P>*>(args[I])...);
    return cudaPeekAtLastError();
}

}  // namespace emu

template <class... P>
cudaError_t cudaLaunchKernel(void (*function)(P...), dim3 grid, dim3 block, void** args, size_t dynamic_bytes = 0, cudaStream_t stream = nullptr) {
    emu::Kernel<void (*)(P...)> kernel{"a kernel launched by cudaLaunchKernel", function};
    return emu::launch_with(args, kernel.emu_on(grid, block, dynamic_bytes, stream), std::index_sequence_for<P...>{});
}

template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*function)(P...), dim3 grid, dim3 block, void** args, size_t dynamic_bytes = 0,
                                        cudaStream_t stream = nullptr) {
    emu::Kernel<void (*)(P...)> kernel{"a kernel launched by cudaLaunchCooperativeKernel", function};
    emu::Configured<void (*)(P...)> launch = kernel.emu_on(grid, block, dynamic_bytes, stream);
    launch.cooperative = true;
    return emu::launch_with(args, launch, std::index_sequence_for<P...>{});
}

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0, cudaLaunchAttributeAccessPolicyWindow = 1, cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeSynchronizationPolicy = 3, cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeClusterSchedulingPolicyPreference = 5, cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
    char pad[64];
    int cooperative;
    struct {
        unsigned x, y, z;
    } clusterDim;
    int clusterSchedulingPolicyPreference;
    int programmaticStreamSerializationAllowed;
    int priority;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    char pad[4];
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

// A kernel starts when the one before it has ended, so there is nothing to do for programmatic dependent launches.
template <class... P, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*function)(P...), Args&&... args) {
    emu::Kernel<void (*)(P...)> kernel{"a kernel launched by cudaLaunchKernelEx", function};
    emu::Configured<void (*)(P...)> launch = kernel.emu_on(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttributeValue& value = config->attrs[i].val;
        if (config->attrs[i].id == cudaLaunchAttributeCooperative) launch.cooperative = value.cooperative != 0;
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    }
    launch(static_cast<P>(args)...);
    return cudaPeekAtLastError();
}
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
