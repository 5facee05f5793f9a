// expect: ACCEPTED
// Each thread keeps a 4 x 4 patch of sums in registers, so that a value read from shared memory is used four times.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int PATCH = 4;
constexpr int THREADS = 8;              // per side
constexpr int TILE = PATCH * THREADS;   // 32 x 32 outputs a block
constexpr int DEPTH = 8;                // of a step along k

__global__ void __launch_bounds__(THREADS * THREADS) tril_matmul(const float* a, const float* b, float* c, int64_t n) {
    __shared__ float a_tile[DEPTH][TILE];
    __shared__ float b_tile[DEPTH][TILE];

    const int thread = threadIdx.y * THREADS + threadIdx.x;
    const int64_t first_row = static_cast<int64_t>(blockIdx.y) * TILE;
    const int64_t first_col = static_cast<int64_t>(blockIdx.x) * TILE;
    const int64_t depth = first_col <= first_row + TILE - 1 ? n : 0;  // the same for the whole block

    float sums[PATCH][PATCH] = {};
    for (int64_t start = 0; start < depth; start += DEPTH) {
        for (int i = thread; i < DEPTH * TILE; i += THREADS * THREADS) {
            const int64_t row = first_row + i / DEPTH, a_k = start + i % DEPTH;
            a_tile[i % DEPTH][i / DEPTH] = row < n && a_k < n ? a[row * n + a_k] : 0.0f;
            const int64_t col = first_col + i % TILE, b_k = start + i / TILE;
            b_tile[i / TILE][i % TILE] = col < n && b_k < n ? b[b_k * n + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {
            float left[PATCH], right[PATCH];
            #pragma unroll
            for (int p = 0; p < PATCH; ++p) {
                left[p] = a_tile[k][threadIdx.y + p * THREADS];
                right[p] = b_tile[k][threadIdx.x + p * THREADS];
            }
            #pragma unroll
            for (int i = 0; i < PATCH; ++i) {
                #pragma unroll
                for (int j = 0; j < PATCH; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < PATCH; ++i) {
        for (int j = 0; j < PATCH; ++j) {
            const int64_t row = first_row + threadIdx.y + i * THREADS;
            const int64_t col = first_col + threadIdx.x + j * THREADS;
            if (row < n && col < n) c[row * n + col] = col <= row ? sums[i][j] : 0.0f;
        }
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    tril_matmul<<<dim3(tiles, tiles), dim3(THREADS, THREADS), 0, stream>>>(a, b, c, n);
}
