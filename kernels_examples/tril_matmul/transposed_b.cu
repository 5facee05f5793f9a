// expect: WRONG_ANSWER MISMATCH
// b is read as if it were stored column by column: the strides of its two axes are swapped.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void tril_matmul(const float* a, const float* b, float* c, int64_t n) {
    const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col >= n) return;

    float sum = 0.0f;
    if (col <= row) {
        for (int64_t k = 0; k < n; ++k) sum += a[row * n + k] * b[col * n + k];
    }
    c[row * n + col] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const dim3 block(16, 16);
    const dim3 grid((n + block.x - 1) / block.x, (n + block.y - 1) / block.y);
    tril_matmul<<<grid, block, 0, stream>>>(a, b, c, n);
}
