// problem: matmul
// why: loads the next tile into the other half of shared memory while it still computes with this one
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int TILE = 16;

__global__ void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    __shared__ float left[2][TILE][TILE + 1], right[2][TILE][TILE + 1];
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + threadIdx.y;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * TILE + threadIdx.x;
    const auto load = [&](int stage, int64_t begin) {
        const int64_t i = begin + threadIdx.x, j = begin + threadIdx.y;
        left[stage][threadIdx.y][threadIdx.x] = row < m && i < k ? a[row * k + i] : 0.0f;
        right[stage][threadIdx.y][threadIdx.x] = j < k && column < n ? b[j * n + column] : 0.0f;
    };
    float sum = 0.0f;
    load(0, 0);
    __syncthreads();
    for (int64_t begin = 0, stage = 0; begin < k; begin += TILE, stage ^= 1) {
        if (begin + TILE < k) load(static_cast<int>(stage ^ 1), begin + TILE);
        for (int i = 0; i < TILE; ++i) sum += left[stage][threadIdx.y][i] * right[stage][i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>((n + TILE - 1) / TILE), static_cast<unsigned>((m + TILE - 1) / TILE));
    product<<<grid, dim3(TILE, TILE), 0, stream>>>(a, b, c, m, n, k);
}
