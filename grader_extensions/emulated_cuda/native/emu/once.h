// What every kernel needs and none is faster for having inlined.  It is compiled once, beforehand (grader_extensions/emulated_cuda/emulated_device.cpp), and
// sources then only declare it (EMU_PRECOMPILED).  Where that object is not at hand it is compiled with each of them.
#pragma once

#include "launch.h"
#include "crew.h"

#ifdef EMU_DEVICE_OBJECT
// Weak: a source that has these functions itself, such as with other containers, comes first in the link and uses its own.
#define EMU_ONCE(how) __attribute__((weak))
#else
#define EMU_ONCE(how) how
#endif

// What profile mode has called before and after each launch, with x, y, z of grid and block; nothing in any other mode. The runner finds it
// by its name (grader_extensions/modes/box/torch_profile.py).
extern "C" {
__attribute__((weak, used, visibility("default"))) void (*grader_launch_hook)(const char* kernel, const unsigned* sizes, size_t dynamic_bytes,
                                                                              int begins) = nullptr;
}

namespace emu EMU_HIDDEN {

[[noreturn]] EMU_ONCE(inline) void trap(const char* what) {
    fflush(stdout);
    if (worker && worker->in_kernel()) describe_fault(what);
    EMU_TELL(flush_findings());
    abort();
}

EMU_ONCE(EMU_UNCHECKED) Fiber* Worker::take_fiber() {
    if (idle_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>(static_cast<unsigned>(fibers_.size()), &Worker::fiber_main));
        return fibers_.back().get();
    }
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    return fiber;
}

EMU_ONCE(inline) size_t shared_limit_of(const Launch& launch) {
    const char* kernel = probe([&] { launch.run_thread(launch.call); });
    for (const KernelAttributes& entry : kernel_attributes)
        if (entry.kernel == kernel) return entry.dynamic_shared_bytes > default_shared_bytes ? max_shared_bytes : default_shared_bytes;
    return default_shared_bytes;
}

EMU_ONCE(inline) dim3 cluster_of(const Launch& launch) {
    probed_cluster[0] = probed_cluster[1] = probed_cluster[2] = 1;
    probe([&] { launch.run_thread(launch.call); });
    return {probed_cluster[0], probed_cluster[1], probed_cluster[2]};
}

EMU_ONCE(inline) KernelAttributes& attributes_of(const void* function) {
    const char* kernel = probe([&] { reinterpret_cast<void (*)()>(reinterpret_cast<uintptr_t>(function))(); });
    for (KernelAttributes& entry : kernel_attributes)
        if (entry.kernel == kernel) return entry;
    kernel_attributes.push_back({kernel, default_shared_bytes});
    return kernel_attributes.back();
}

// Outlined, as it stands behind every call that has a stream.
EMU_ONCE(EMU_OUTLINE) void keep(cudaStream_t stream, Work* work) {
    if (worker && worker->in_kernel()) trap("a kernel or a copy launched by a kernel, which is not emulated");
    stream->capture->works.push_back(std::shared_ptr<Work>(work));
}

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

// Says which limit a launch breaks, behind the text of its error.
inline void tell_limit(const Launch& launch) {
    dim3 b = launch.block, g = launch.grid;
    unsigned long long threads = 1ull * b.x * b.y * b.z;
    char* text = broken_limit;
    size_t size = sizeof broken_limit;
    if (threads == 0 || !g.x || !g.y || !g.z) snprintf(text, size, " (no threads in a block, or no blocks)");
    else if (threads > max_threads) snprintf(text, size, " (%llu threads in a block; at most %u)", threads, max_threads);
    else if (b.z > 64) snprintf(text, size, " (%u threads of a block in z; at most 64)", b.z);
    else if (g.y > 65535 || g.z > 65535) snprintf(text, size, " (%u blocks in y and %u in z; at most 65535)", g.y, g.z);
    else if (launch.dynamic_bytes > launch.shared_limit)
        snprintf(text, size, " (%zu bytes of dynamic shared memory; %zu without cudaFuncSetAttribute, and at most %zu)", launch.dynamic_bytes,
                 default_shared_bytes, max_shared_bytes);
}

// As many blocks as eight multiprocessors hold, by their threads and their shared memory.
inline uint64_t most_cooperative_blocks(const Launch& launch) {
    return uint64_t{8} * blocks_at_once(launch.threads(), launch.dynamic_bytes);
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

EMU_ONCE(inline) cudaError_t run_launch(Launch launch) {
    if (last_error == cudaErrorLaunchFailure) return last_error;
    if (worker && worker->in_kernel()) trap("a graph launched by a kernel, which is not emulated");
    cudaError_t failed = check_launch(launch);
    if (failed == cudaSuccess) failed = check_team(launch);
    if (failed != cudaSuccess) {
        EMU_TELL(launch_failed(cudaGetErrorName(failed)));
        report(failed);
        tell_limit(launch);
        return failed;
    }
#ifndef EMU_SANITIZE  // what it finds does not depend on who runs when
    launch.order = grader_thread_order;
#endif
    report_launch(launch, 1);
    EMU_TELL(launch_begins());
    cudaError_t ended = static_cast<cudaError_t>(run_blocks(launch));
    EMU_TELL(launch_ends());
    report_launch(launch, 0);
    if (ended != cudaSuccess) EMU_TELL(launch_failed(cudaGetErrorName(ended)));
    return report(ended);
}

}  // namespace emu

// What the runner calls around a launch: the last error as "name: text", which it clears; "" for none. See sandbox/native/cuda_error.cpp.
extern "C" __attribute__((weak, used, visibility("default"))) const char* grader_take_cuda_error() {
#ifdef EMU_SANITIZE
    if (emu::sanitizer::report_unchecked) emu::sanitizer::report_unchecked();
#endif
    static EMU_THREAD_LOCAL char text[256];
    cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess) return "";
    snprintf(text, sizeof text, "%s: %s%s", cudaGetErrorName(code), cudaGetErrorString(code), emu::broken_limit);
    return text;
}
