// twin of: l2_pinning
// cases: matmul
// expect: ACCEPTED
// 96 KiB of dynamic shared memory a block, which has to be asked for; tiles of 64 by 64, four elements a thread.
#include "work.h"

static constexpr int TILE = 64, DEPTH = 192;

__global__ void large_tiles(const float* a, const float* b, float* out, int64_t n) {
    extern __shared__ float shared[];
    float *left = shared, *right = shared + TILE * DEPTH;
    const int64_t top = TILE * static_cast<int64_t>(blockIdx.y), first = TILE * static_cast<int64_t>(blockIdx.x);
    const int thread = threadIdx.y * 32 + threadIdx.x;
    float sum[2][2] = {};
    for (int64_t begin = 0; begin < n; begin += DEPTH) {
        for (int at = thread; at < TILE * DEPTH; at += 1024) {
            const int64_t row = top + at / DEPTH, k = begin + at % DEPTH;
            left[at] = row < n && k < n ? a[row * n + k] : 0.0f;
        }
        for (int at = thread; at < DEPTH * TILE; at += 1024) {
            const int64_t k = begin + at / TILE, column = first + at % TILE;
            right[at] = k < n && column < n ? b[k * n + column] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) sum[i][j] += left[(threadIdx.y + 32 * i) * DEPTH + k] * right[k * TILE + threadIdx.x + 32 * j];
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const int64_t row = top + threadIdx.y + 32 * i, column = first + threadIdx.x + 32 * j;
            if (row < n && column < n) out[row * n + column] = sum[i][j];
        }
}

ENTRY {
    constexpr int bytes = 2 * TILE * DEPTH * sizeof(float);
    cudaFuncSetAttribute(large_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    large_tiles<<<dim3(tiles, tiles), dim3(32, 32), bytes, stream>>>(a, b, out, n);
}
