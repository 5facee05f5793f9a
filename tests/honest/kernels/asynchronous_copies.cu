// problem: matmul
// why: copies to shared memory are asynchronous, committed and waited for a stage later
#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include <cuda_runtime.h>

static constexpr int TILE = 16;

__global__ void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    __shared__ __align__(16) float left[2][TILE][TILE];
    __shared__ __align__(16) float right[2][TILE][TILE];
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + threadIdx.y;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * TILE + threadIdx.x;
    const auto load = [&](int stage, int64_t begin) {
        const int64_t i = begin + threadIdx.x, j = begin + threadIdx.y;
        if (row < m && i < k) __pipeline_memcpy_async(&left[stage][threadIdx.y][threadIdx.x], &a[row * k + i], sizeof(float));
        else left[stage][threadIdx.y][threadIdx.x] = 0.0f;
        if (j < k && column < n) __pipeline_memcpy_async(&right[stage][threadIdx.y][threadIdx.x], &b[j * n + column], sizeof(float));
        else right[stage][threadIdx.y][threadIdx.x] = 0.0f;
        __pipeline_commit();
    };
    float sum = 0.0f;
    int stage = 0;
    load(0, 0);
    for (int64_t begin = 0; begin < k; begin += TILE, stage ^= 1) {
        if (begin + TILE < k) {
            load(stage ^ 1, begin + TILE);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += left[stage][threadIdx.y][i] * right[stage][i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>((n + TILE - 1) / TILE), static_cast<unsigned>((m + TILE - 1) / TILE));
    product<<<grid, dim3(TILE, TILE), 0, stream>>>(a, b, c, m, n, k);
}
