// problem: total
// why: as many blocks as the device holds stay until a queue in global memory is empty, and then end
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int64_t PIECE = 1024;
__device__ unsigned long long taken;

__global__ void begin(float* sum) {
    taken = 0;
    *sum = 0.0f;
}

__global__ void worker(const float* x, float* sum, int64_t n) {
    __shared__ int64_t first;
    float part = 0.0f;
    for (;;) {
        if (threadIdx.x == 0) first = PIECE * static_cast<int64_t>(atomicAdd(&taken, 1ull));
        __syncthreads();
        const int64_t mine = first;
        __syncthreads();
        if (mine >= n) break;
        const int64_t end = mine + PIECE < n ? mine + PIECE : n;
        for (int64_t i = mine + threadIdx.x; i < end; i += blockDim.x) part += x[i];
    }
    for (int distance = 16; distance > 0; distance /= 2) part += __shfl_down_sync(0xffffffffu, part, distance);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, part);
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) {
    static int blocks = 0;
    if (blocks == 0) {
        int each = 0;
        cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, 0);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, worker, 128, 0);
        blocks *= each > 2 ? 2 : each;
    }
    begin<<<1, 1, 0, stream>>>(sum);
    worker<<<blocks, 128, 0, stream>>>(x, sum, n);
}
