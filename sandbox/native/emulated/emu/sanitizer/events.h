// What the emulated device tells its sanitizer: launches, blocks, memory, barriers, and warps that meet.
#pragma once

#include "atomics.h"
#include "barriers.h"
#include "basic_blocks.h"
#include "libm.h"
#include "undefined.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

EMU_COLD inline void memory_allocated(const void* address, size_t bytes) {
    prepare();
    add_region(address, bytes, "", Space::Global, true, false, false);
}
EMU_COLD inline void memory_released(const void* address) { remove_region(reinterpret_cast<uintptr_t>(address)); }

EMU_COLD inline void host_wrote(const void* address, size_t bytes) {
    if (bytes) mark_initialised(address, bytes);
}

EMU_COLD inline void launch_begins() {
    prepare();
    if (pending.waits) settle_pending();
    clock.launch = clock.block = clock.barrier = ++clock.time;
    // Kernels lay out shared memory differently.
    for (size_t i = regions.count; i-- > 0;)
        if (regions.list[i].space == Space::Shared) remove_region(regions.list[i].begin);
    variables.count = 0;
}

EMU_COLD inline void launch_ends() {
    ++clock.time;
    flush_findings();
    count_launch();
}

EMU_COLD inline void block_begins() {
    clock.block = clock.barrier = ++clock.time;
    forget_locals_of_block();
    reset_order();
    reset_barriers();
    count_block();
}

// While the last thread is still the current one.
EMU_COLD inline void block_ends() {
    if (pending.waits) settle_pending();
    if (any_suspect) settle_suspects();
    end_counted_block();
    clock.self = Clock::host;
}

EMU_COLD inline void shared_memory(const void* address, size_t bytes, const char* name) {
    if (bytes == 0) return;
    auto begin = reinterpret_cast<uintptr_t>(address);
    const Region* known = region_at(begin);
    if (!known || known->end != begin + bytes || known->space != Space::Shared)
        return add_region(address, bytes, name, Space::Shared, true, false, false);
    for (uintptr_t number = begin >> page_shift; number <= (begin + bytes - 1) >> page_shift; ++number)
        if (Page* page = find_page(number)) reset_cells(*page, *known, begin, begin + bytes);
}

// Names a variable that lies in the block's shared memory, and hands it on.
template <class T>
EMU_RAW inline T& named(T& variable, const char* name) {
    name_variable(reinterpret_cast<uintptr_t>(&variable), sizeof variable, name);
    return variable;
}

EMU_RAW inline __attribute__((always_inline)) void thread_runs(unsigned linear) {
    clock.self = linear;
    clock.stack = reinterpret_cast<uintptr_t>(worker->running()->fiber->stack.mapping) + page_bytes;
    last_code = nullptr;
}

EMU_COLD inline void thread_ends() {
    if (pending.waits) settle_pending();
    settle_suspect(self_linear());
    if (locals.live) forget_locals(locals.table->threads[self_linear()]);
    thread_left(self_linear());
}

EMU_COLD inline void barrier_released() {
    if (pending.waits) settle_pending();
    if (any_suspect) settle_suspects();
    judge_barrier();
    join_block();
    count_barrier();
}

// Those warps of the block that have a lane at a barrier of their own.
EMU_COLD inline void named_released(const uint32_t* lanes) {
    if (pending.waits) settle_pending();
    uint32_t warps = 0;
    for (unsigned warp = 0; warp < 32; ++warp)
        if (lanes[warp]) warps |= 1u << warp;
    join_warps(warps);
}

// The process is about to die of what the current thread did.
EMU_COLD inline void faulted(const void* address, const void* code) {
    if (pending.waits) settle_pending();
    flush_counts();
    if (!code) return flush_findings();
    report_fault(reinterpret_cast<uintptr_t>(address), place_of(code) + 1);  // the instruction itself, where others are what lies behind it
    flush_findings();
}

struct FailedLaunch {
    const void* code;  // of the launch that is being made
    const char* kernel;
    const char* error;
    bool unsupported;  // only by the sanitizer
};
inline constinit FailedLaunch failed_launch{};

EMU_COLD inline void launch_here() { failed_launch.code = EMU_CODE; }

EMU_COLD inline void report_failed_launch() {
    if (!launch_unchecked) return;
    launch_unchecked = false;
    uint32_t place = place_of(failed_launch.code);
    bool fresh = false;
    Finding* finding = enter("unchecked_launch", Severity::Error, &place, 1, &fresh);
    if (!finding || !fresh) return;
    snprintf(finding->kernel, sizeof finding->kernel, "%.150s", failed_launch.kernel);
    if (failed_launch.unsupported) {
        finding->severity = Severity::Info;
        snprintf(finding->message, sizeof finding->message,
                 "the launch at {0} was not run: the sanitizer follows neither cooperative launches nor clusters");
        return finish(*finding);
    }
    snprintf(finding->message, sizeof finding->message, "the launch at {0} failed with %s, so the kernel did not run, and the host never asked",
             failed_launch.error);
    finish(*finding);
}

EMU_COLD inline void launch_failed(const char* kernel, const char* error) {
    failed_launch.unsupported = strcmp(error, "cudaErrorNotSupported") == 0;
    prepare();
    report_failed_launch();
    failed_launch.kernel = kernel;
    failed_launch.error = error;
    launch_unchecked = true;
    report_unchecked = &report_failed_launch;
}

__attribute__((destructor)) EMU_COLD inline void process_ends() {
    report_failed_launch();
    flush_findings();
    flush_counts();
}

}  // namespace sanitizer
}  // namespace emu

// Names memory that does not come from cudaMalloc.  The grader calls it before a launch, for every tensor.
extern "C" __attribute__((weak, used, visibility("default"), noinline)) EMU_RAW void emu_sanitizer_region(
    void* begin, size_t bytes, const char* name, int writable, int initialised) {
    emu::sanitizer::prepare();
    emu::sanitizer::add_region(begin, bytes, name, emu::sanitizer::Space::Global, writable != 0, initialised != 0, true);
}
