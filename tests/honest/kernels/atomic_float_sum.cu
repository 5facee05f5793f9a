// problem: total
// why: every warp adds its part with a float atomic, so that the order and the last bits differ from run to run
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add_up(const float* x, float* sum, int64_t n) {
    float part = 0.0f;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) part += x[i];
    for (int distance = 16; distance > 0; distance /= 2) part += __shfl_down_sync(0xffffffffu, part, distance);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, part);
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) {
    cudaMemsetAsync(sum, 0, sizeof(float), stream);
    add_up<<<24, 128, 0, stream>>>(x, sum, n);
}
