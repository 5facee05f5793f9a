// problem: matmul
// why: asks for 96 KiB of dynamic shared memory, more than a kernel has unless its host code opts in
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int TILE = 32, DEPTH = 384;
static constexpr int BYTES = 2 * TILE * DEPTH * static_cast<int>(sizeof(float));

__global__ void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    extern __shared__ float4 raw[];
    auto* left = reinterpret_cast<float*>(raw);
    float* right = left + TILE * DEPTH;
    const int64_t top = static_cast<int64_t>(blockIdx.y) * TILE, first = static_cast<int64_t>(blockIdx.x) * TILE;
    float sum[4] = {};
    for (int64_t begin = 0; begin < k; begin += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += blockDim.x) {
            const int64_t row = top + at / DEPTH, i = begin + at % DEPTH, j = begin + at / TILE, column = first + at % TILE;
            left[at] = row < m && i < k ? a[row * k + i] : 0.0f;
            right[at] = j < k && column < n ? b[j * n + column] : 0.0f;
        }
        __syncthreads();
        for (int one = 0; one < 4; ++one) {
            const int at = threadIdx.x + 256 * one;
            for (int i = 0; i < DEPTH; ++i) sum[one] += left[at / TILE * DEPTH + i] * right[i * TILE + at % TILE];
        }
        __syncthreads();
    }
    for (int one = 0; one < 4; ++one) {
        const int at = threadIdx.x + 256 * one;
        const int64_t row = top + at / TILE, column = first + at % TILE;
        if (row < m && column < n) c[row * n + column] = sum[one];
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    const dim3 grid(static_cast<unsigned>((n + TILE - 1) / TILE), static_cast<unsigned>((m + TILE - 1) / TILE));
    product<<<grid, 256, BYTES, stream>>>(a, b, c, m, n, k);
}
