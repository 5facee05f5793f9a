// `emu_` stands before every name that a rewritten line uses, lest it be the parameter of a user's macro.
// What `k<16><<<grid, block, bytes, stream>>>(arguments)` is rewritten to, with the checks that the real launch makes.
//
//     ::emu::emu_kernel(EMU_NAME(k<16>), [&](const auto&... emu_args) { k<16>(emu_args...); }).emu_on(grid, block)(a, b);
#pragma once

#include <utility>

#include "error.h"
#include "kernel_attributes.h"
#include "pool.h"
#include "stream.h"
#include "team.h"

#define EMU_NAME(...) #__VA_ARGS__

// What profile mode has called before and after each launch, with x, y, z of grid and block; nothing in any other mode. The runner finds it
// by its name (sandbox/languages/launch_hook.py).
extern "C" __attribute__((weak, used, visibility("default")))
void (*grader_launch_hook)(const char* kernel, const unsigned* sizes, size_t dynamic_bytes, int begins) = nullptr;

namespace emu EMU_HIDDEN {

inline void report_launch(const Launch& launch, int begins) {
    if (!grader_launch_hook) return;
    const unsigned sizes[6] = {launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y, launch.block.z};
    grader_launch_hook(launch.name, sizes, launch.dynamic_bytes, begins);
}

inline cudaError_t check_launch(const Launch& launch) {
    dim3 b = launch.block, g = launch.grid;
    bool block_fits = b.x && b.y && b.z && b.x <= 1024 && b.y <= 1024 && b.z <= 64 && launch.threads() <= max_threads;
    bool grid_fits = g.x && g.y && g.z && g.x <= 0x7fffffffu && g.y <= 65535 && g.z <= 65535;
    // CUDA 13 on an H200 answers InvalidValue to all of these (runtimes before it: InvalidConfiguration).
    return block_fits && grid_fits && launch.dynamic_bytes <= launch.shared_limit ? cudaSuccess : cudaErrorInvalidValue;
}

// As many blocks as eight multiprocessors hold, by their threads and their shared memory.
inline uint64_t most_cooperative_blocks(const Launch& launch) {
    size_t by_threads = 2048 / launch.threads(), by_memory = (max_shared_bytes + 1024) / (launch.dynamic_bytes + 1024);
    size_t each = by_threads < by_memory ? by_threads : by_memory;
    return 8 * (each < 32 ? each : 32);
}

inline cudaError_t check_team(const Launch& launch) {
    dim3 c = launch.cluster, g = launch.grid;
    uint64_t size = uint64_t{c.x} * c.y * c.z;
    if (size == 0 || size > 8 || g.x % c.x || g.y % c.y || g.z % c.z) return cudaErrorInvalidClusterSize;
    if (launch.cooperative && launch.blocks() > most_cooperative_blocks(launch)) return cudaErrorCooperativeLaunchTooLarge;
#ifdef EMU_SANITIZE
    bool watched = true;
#else
    bool watched = false;
#endif
    // The sanitizer follows one block at a time.
    return (launch.cooperative && size > 1) || (watched && (launch.cooperative || size > 1)) ? cudaErrorNotSupported : cudaSuccess;
}

inline int run_blocks(const Launch& launch) {
    if (launch.cooperative) return run_team(launch, static_cast<unsigned>(launch.blocks()), true);
    unsigned cluster = launch.cluster.x * launch.cluster.y * launch.cluster.z;
    return cluster > 1 ? run_team(launch, cluster, false) : run_grid(launch);
}

inline cudaError_t launch_error(const Launch& launch) {
    cudaError_t checked = check_launch(launch);
    if (checked == cudaSuccess) checked = check_team(launch);
    if (checked != cudaSuccess) EMU_TELL(launch_failed(launch.name, cudaGetErrorName(checked)));
    return report(checked);
}

inline cudaError_t run_launch(Launch launch) {
    if (last_error == cudaErrorLaunchFailure) return last_error;
    if (worker && worker->in_kernel()) trap("a graph launched by a kernel, which is not emulated");
    if (cudaError_t failed = launch_error(launch)) return failed;
    DeviceQueue queue(launch_depth);
    launch.queue = &queue;
    report_launch(launch, 1);
    EMU_TELL(launch_begins());
    cudaError_t ended = static_cast<cudaError_t>(run_blocks(launch));
    EMU_TELL(launch_ends());
    report_launch(launch, 0);
    if (ended != cudaSuccess) EMU_TELL(launch_failed(launch.name, cudaGetErrorName(ended)));
    else run_launches_of(queue);
    return report(ended);
}

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
        if (worker && worker->in_kernel() && launch_error(launch) != cudaSuccess) return;  // the error is the launching thread's
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
Kernel<Body> emu_kernel(const char* name, Body body) {
    return {name, body};
}

// cudaLaunchKernel hands arguments over as addresses; the kernel's own type says what lies there.
template <class... P, size_t... I>
void call_with(void (*function)(P...), void** args, const Configured<void (*)(P...)>& launch, std::index_sequence<I...>) {
    (void)function;
    launch(*static_cast<std::remove_cv_t<P>*>(args[I])...);
}

}  // namespace emu

template <class... P>
cudaError_t cudaLaunchKernel(void (*function)(P...), dim3 grid, dim3 block, void** args, size_t dynamic_bytes = 0, cudaStream_t stream = nullptr) {
    emu::Kernel<void (*)(P...)> kernel{"a kernel launched by cudaLaunchKernel", function};
    emu::call_with(function, args, kernel.emu_on(grid, block, dynamic_bytes, stream), std::index_sequence_for<P...>{});
    return cudaPeekAtLastError();
}

template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*function)(P...), dim3 grid, dim3 block, void** args, size_t dynamic_bytes = 0,
                                        cudaStream_t stream = nullptr) {
    emu::Kernel<void (*)(P...)> kernel{"a kernel launched by cudaLaunchCooperativeKernel", function};
    emu::Configured<void (*)(P...)> launch = kernel.emu_on(grid, block, dynamic_bytes, stream);
    launch.cooperative = true;
    emu::call_with(function, args, launch, std::index_sequence_for<P...>{});
    return cudaPeekAtLastError();
}

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeAccessPolicyWindow = 1,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeSynchronizationPolicy = 3,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
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
