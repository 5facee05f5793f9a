// expect: ACCEPTED
// Split along k and added up with atomics, into an output cleared on the same stream: the order of the additions varies, and may.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int SLICE = 32;

__global__ void tril_matmul(const float* a, const float* b, float* c, int64_t n) {
    const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col > row) return;

    const int64_t begin = static_cast<int64_t>(blockIdx.z) * SLICE;
    const int64_t end = begin + SLICE < n ? begin + SLICE : n;
    float sum = 0.0f;
    for (int64_t k = begin; k < end; ++k) sum += a[row * n + k] * b[k * n + col];
    atomicAdd(&c[row * n + col], sum);
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    cudaMemsetAsync(c, 0, static_cast<size_t>(n) * n * sizeof(float), stream);
    const dim3 block(16, 16);
    const dim3 grid((n + block.x - 1) / block.x, (n + block.y - 1) / block.y, (n + SLICE - 1) / SLICE);
    tril_matmul<<<grid, block, 0, stream>>>(a, b, c, n);
}
