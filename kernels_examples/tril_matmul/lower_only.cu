// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// The upper triangle is left as it was: an output is not zero because one wishes it so.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void tril_matmul(const float* a, const float* b, float* c, int64_t n) {
    const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col > row) return;

    float sum = 0.0f;
    for (int64_t k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const dim3 block(16, 16);
    const dim3 grid((n + block.x - 1) / block.x, (n + block.y - 1) / block.y);
    tril_matmul<<<grid, block, 0, stream>>>(a, b, c, n);
}
