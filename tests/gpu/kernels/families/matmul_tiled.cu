// 64 x 64 outputs a block, 4 x 4 a thread, in steps of 16 along k through shared memory.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int PATCH = 4;
constexpr int SIDE = 16;
constexpr int TILE = PATCH * SIDE;
constexpr int DEPTH = 16;

__global__ void __launch_bounds__(SIDE * SIDE) matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float left[DEPTH][TILE + 1];
    __shared__ float right[DEPTH][TILE];
    const int thread = threadIdx.y * SIDE + threadIdx.x;
    const int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    float sums[PATCH][PATCH] = {};
    for (int start = 0; start < n; start += DEPTH) {
        for (int i = thread; i < DEPTH * TILE; i += SIDE * SIDE) {
            const int row = first_row + i / DEPTH, a_k = start + i % DEPTH;
            left[i % DEPTH][i / DEPTH] = row < n && a_k < n ? a[static_cast<int64_t>(row) * n + a_k] : 0.0f;
            const int col = first_col + i % TILE, b_k = start + i / TILE;
            right[i / TILE][i % TILE] = col < n && b_k < n ? b[static_cast<int64_t>(b_k) * n + col] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float from_a[PATCH], from_b[PATCH];
            #pragma unroll
            for (int p = 0; p < PATCH; ++p) {
                from_a[p] = left[k][threadIdx.y + p * SIDE];
                from_b[p] = right[k][threadIdx.x + p * SIDE];
            }
            #pragma unroll
            for (int i = 0; i < PATCH; ++i) {
                #pragma unroll
                for (int j = 0; j < PATCH; ++j) sums[i][j] = fmaf(from_a[i], from_b[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < PATCH; ++i) {
        for (int j = 0; j < PATCH; ++j) {
            const int row = first_row + threadIdx.y + i * SIDE, col = first_col + threadIdx.x + j * SIDE;
            if (row < n && col < n) c[static_cast<int64_t>(row) * n + col] = sums[i][j];
        }
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    matmul<<<dim3(tiles, tiles), dim3(SIDE, SIDE), 0, stream>>>(a, b, c, static_cast<int>(n));
}
