// twin of: persistent_poller
// cases: triad
// expect: ACCEPTED
// A cooperative launch: all blocks double, wait for each other, and add what another block has doubled.
#include <cooperative_groups.h>

#include "work.h"

__global__ void two_phases(const float* a, const float* b, float* out, int64_t n) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x, first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < n; i += step) out[i] = 2.0f * a[i];
    cooperative_groups::this_grid().sync();
    for (int64_t i = first; i < n; i += step) out[n - 1 - i] += b[n - 1 - i];
}

ENTRY {
    static int blocks = 0;
    if (blocks == 0) {
        int processors = 0, each = 0;
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, two_phases, 512, 0);
        blocks = processors * each;
    }
    void* arguments[] = {&a, &b, &out, &n};
    cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(two_phases), dim3(blocks), dim3(512), arguments, 0, stream);
}
