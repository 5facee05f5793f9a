// problem: silu
#include <cuda_runtime.h>

__device__ float weighted(float value, float weight) { return value * weight; }

__global__ void silu(const float* in, float* out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = weighted(in[i], 1.0f / (1.0f + expf(-in[i])));
}

extern "C" void solve(const float* x, float* y, int m, int d) { silu<<<(m * d + 255) / 256, 256>>>(x, y, m * d); }
