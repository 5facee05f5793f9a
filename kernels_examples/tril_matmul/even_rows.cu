// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// Each thread was to do two rows, and the grid was halved for it, but the second row was never written.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void tril_matmul(const float* a, const float* b, float* c, int64_t n) {
    const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = 2 * (static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y);
    if (row >= n || col >= n) return;

    float sum = 0.0f;
    if (col <= row) {
        for (int64_t k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    }
    c[row * n + col] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const dim3 block(16, 16);
    const int64_t row_pairs = (n + 1) / 2;
    const dim3 grid((n + block.x - 1) / block.x, (row_pairs + block.y - 1) / block.y);
    tril_matmul<<<grid, block, 0, stream>>>(a, b, c, n);
}
