// twin of: persistent_poller
// cases: triad
// expect: ACCEPTED
// As many blocks as fit stay and take pieces from a queue until it is empty; then they end.
#include "work.h"

__global__ void worker(const float* a, const float* b, float* out, int64_t n, unsigned* next) {
    __shared__ int64_t begin;
    for (;;) {
        if (threadIdx.x == 0) begin = 16384 * static_cast<int64_t>(atomicAdd(next, 1));
        __syncthreads();
        const int64_t mine = begin;
        __syncthreads();
        if (mine >= n) return;
        const int64_t end = mine + 16384 < n ? mine + 16384 : n;
        for (int64_t i = mine + threadIdx.x; i < end; i += blockDim.x) out[i] = 2.0f * a[i] + b[i];
    }
}

ENTRY {
    static unsigned* next = nullptr;
    static int blocks = 0;
    if (next == nullptr) {
        int processors = 0, each = 0;
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, worker, 512, 0);
        blocks = processors * each;
        cudaMalloc(reinterpret_cast<void**>(&next), sizeof(unsigned));
    }
    cudaMemsetAsync(next, 0, sizeof(unsigned), stream);
    worker<<<blocks, 512, 0, stream>>>(a, b, out, n, next);
}
