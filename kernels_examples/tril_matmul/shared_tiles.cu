// expect: ACCEPTED
// Tiles in shared memory: a block above the diagonal returns as a whole, so every barrier is reached by all threads of a block or by none.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void tril_matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t n) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE + 1];  // padded against bank conflicts

    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + y;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * TILE + x;
    const bool inside = row < n && col < n;

    if (blockIdx.x > blockIdx.y) {
        if (inside) c[row * n + col] = 0.0f;
        return;
    }

    float sum = 0.0f;
    for (int64_t start = 0; start < n; start += TILE) {
        a_tile[y][x] = row < n && start + x < n ? a[row * n + start + x] : 0.0f;
        b_tile[y][x] = col < n && start + y < n ? b[(start + y) * n + col] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();
    }
    if (inside) c[row * n + col] = col <= row ? sum : 0.0f;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    tril_matmul<<<dim3(tiles, tiles), dim3(TILE, TILE), 0, stream>>>(a, b, c, n);
}
