// problem: adam_step
// why: changes three of its inputs in place, and writes an output next to them
#include <cstdint>

#include <cuda_runtime.h>

__global__ void step(float* parameter, const float* gradient, float* mean, float* square, float* moved, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float slope = gradient[i];
    mean[i] = 0.9f * mean[i] + 0.1f * slope;
    square[i] = 0.99f * square[i] + 0.01f * slope * slope;
    moved[i] = 0.5f * mean[i] / (sqrtf(square[i]) + 1e-6f);
    parameter[i] -= moved[i];
}

extern "C" void solve(float* parameter, const float* gradient, float* mean, float* square, float* moved, int64_t n, cudaStream_t stream) {
    if (n > 0) step<<<static_cast<unsigned>((n + 127) / 128), 128, 0, stream>>>(parameter, gradient, mean, square, moved, n);
}
