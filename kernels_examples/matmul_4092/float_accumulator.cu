// expect: ACCEPTED
// Tiles of 16 x 16 in shared memory, the sum in a float, and a bound checked at every load and store, for 16 does not divide 4092.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void matmul(const float* a, const float* b, float* c, int64_t n) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + y;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * TILE + x;

    float sum = 0.0f;
    for (int64_t start = 0; start < n; start += TILE) {
        a_tile[y][x] = row < n && start + x < n ? a[row * n + start + x] : 0.0f;
        b_tile[y][x] = col < n && start + y < n ? b[(start + y) * n + col] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    matmul<<<dim3(tiles, tiles), dim3(TILE, TILE), 0, stream>>>(a, b, c, n);
}
