// expect: WRONG_ANSWER MISMATCH
// Tiles kept as half save shared memory and lose thirteen bits: the task is float32.
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void tril_matmul(const float* a, const float* b, float* c, int64_t n) {
    __shared__ __half a_tile[TILE][TILE];
    __shared__ __half b_tile[TILE][TILE];

    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + y;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * TILE + x;

    float sum = 0.0f;
    for (int64_t start = 0; start < n; start += TILE) {
        a_tile[y][x] = __float2half(row < n && start + x < n ? a[row * n + start + x] : 0.0f);
        b_tile[y][x] = __float2half(col < n && start + y < n ? b[(start + y) * n + col] : 0.0f);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += __half2float(a_tile[y][k]) * __half2float(b_tile[k][x]);
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = col <= row ? sum : 0.0f;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    tril_matmul<<<dim3(tiles, tiles), dim3(TILE, TILE), 0, stream>>>(a, b, c, n);
}
