// problem: total
// why: each warp waits for the one before it, in a loop that counts its turns and in one that is a jump
#include <cuda_runtime.h>
#include <cstdint>

__global__ void total(const float* x, float* sum, int64_t n) {
    __shared__ volatile int next;
    __shared__ volatile double part;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    double own = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) own += x[i];
    for (int lanes = 16; lanes; lanes /= 2) own += __shfl_down_sync(~0u, own, lanes);
    if (threadIdx.x % 32 == 0) {
        if (warp % 2) {
            for (int turns = 0; next != warp; ++turns) {}
        } else {
        again:
            if (next != warp) goto again;
        }
        __threadfence_block();
        part = warp ? part + own : own;
        __threadfence_block();
        next = warp + 1;
    }
    __syncthreads();
    if (threadIdx.x == 0) *sum = static_cast<float>(part);
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) { total<<<1, 256, 0, stream>>>(x, sum, n); }
