// problem: total
// why: a counter that outlives the call tells the last block that it is the last; it winds itself back for the next call
#include <cstdint>

#include <cuda_runtime.h>

static constexpr unsigned BLOCKS = 20, THREADS = 128;
__device__ float parts[BLOCKS];
__device__ unsigned arrived = 0;

__device__ float of_block(float value) {
    __shared__ float warps[THREADS / 32];
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (float one : warps) value += one;
    __syncthreads();
    return value;
}

__global__ void add_up(const float* x, float* sum, int64_t n) {
    __shared__ bool last;
    float part = 0.0f;
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += BLOCKS * THREADS) part += x[i];
    part = of_block(part);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part;
        __threadfence();
        last = atomicInc(&arrived, BLOCKS - 1) == BLOCKS - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    part = of_block(threadIdx.x < BLOCKS ? *static_cast<volatile float*>(&parts[threadIdx.x]) : 0.0f);
    if (threadIdx.x == 0) *sum = part;
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) { add_up<<<BLOCKS, THREADS, 0, stream>>>(x, sum, n); }
