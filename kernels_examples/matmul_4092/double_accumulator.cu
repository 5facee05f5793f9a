// expect: ACCEPTED
// The same, but the sum is a double (in Python a plain `0.0` makes one): as right, and slower by what doubles and conversions cost.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void matmul(const float* a, const float* b, float* c, int64_t n) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + y;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * TILE + x;

    double sum = 0.0;
    for (int64_t start = 0; start < n; start += TILE) {
        a_tile[y][x] = row < n && start + x < n ? a[row * n + start + x] : 0.0f;
        b_tile[y][x] = col < n && start + y < n ? b[(start + y) * n + col] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) sum += static_cast<double>(a_tile[y][k]) * b_tile[k][x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = static_cast<float>(sum);
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    matmul<<<dim3(tiles, tiles), dim3(TILE, TILE), 0, stream>>>(a, b, c, n);
}
