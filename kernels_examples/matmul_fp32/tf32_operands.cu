// expect: WRONG_ANSWER MISMATCH
// Operands cut to TF32's ten bits of fraction, as a tensor core takes them: eight times faster there, and a thousand times less exact.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int TILE = 16;

__device__ float tf32(float value) { return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u); }

__global__ void matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + y;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * TILE + x;

    float sum = 0.0f;
    for (int64_t start = 0; start < k; start += TILE) {
        a_tile[y][x] = row < m && start + x < k ? tf32(a[row * k + start + x]) : 0.0f;
        b_tile[y][x] = col < n && start + y < k ? tf32(b[(start + y) * n + col]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const dim3 tiles((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul<<<tiles, dim3(TILE, TILE), 0, stream>>>(a, b, c, m, n, k);
}
