// expect: WRONG_ANSWER MISMATCH
// Inputs and outputs are half, but a sum kept in half loses the small products as it grows: accumulate in float, round once.
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void matmul(const __half* a, const __half* b, __half* c, int64_t m, int64_t n, int64_t k) {
    __shared__ __half a_tile[TILE][TILE];
    __shared__ __half b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + y;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * TILE + x;
    const __half zero = __float2half(0.0f);

    __half sum = zero;
    for (int64_t start = 0; start < k; start += TILE) {
        a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : zero;
        b_tile[y][x] = col < n && start + y < k ? b[(start + y) * n + col] : zero;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum = __hfma(a_tile[y][i], b_tile[i][x], sum);
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

extern "C" void solve(const __half* a, const __half* b, __half* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const dim3 tiles((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul<<<tiles, dim3(TILE, TILE), 0, stream>>>(a, b, c, m, n, k);
}
