// Product of two lower triangular matrices by tiles in shared memory. `main.py` writes other numbers for TILE and ROWS.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int TILE = 4;  // columns of a block, and its threads in each direction
constexpr int ROWS = 1;  // rows that a thread computes
constexpr int HEIGHT = TILE * ROWS;

__global__ void tril_matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t n) {
    __shared__ float a_tile[HEIGHT][TILE];
    __shared__ float b_tile[TILE][TILE + 1];  // padded against bank conflicts

    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t top = static_cast<int64_t>(blockIdx.y) * HEIGHT;
    const int64_t left = static_cast<int64_t>(blockIdx.x) * TILE;
    const int64_t col = left + x;
    const int64_t end = top + HEIGHT < n ? top + HEIGHT : n;

    float sums[ROWS] = {};
    for (int64_t start = left; start < end; start += TILE) {  // only k from column to row adds to an element
        for (int r = 0; r < ROWS; ++r) {
            const int64_t row = top + r * TILE + y;
            a_tile[r * TILE + y][x] = row < n && start + x < n ? a[row * n + start + x] : 0.0f;
        }
        b_tile[y][x] = col < n && start + y < n ? b[(start + y) * n + col] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) {
            for (int r = 0; r < ROWS; ++r) sums[r] += a_tile[r * TILE + y][k] * b_tile[k][x];
        }
        __syncthreads();
    }
    for (int r = 0; r < ROWS; ++r) {
        const int64_t row = top + r * TILE + y;
        if (row < n && col < n) c[row * n + col] = col <= row ? sums[r] : 0.0f;
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const unsigned across = static_cast<unsigned>((n + TILE - 1) / TILE), down = static_cast<unsigned>((n + HEIGHT - 1) / HEIGHT);
    tril_matmul<<<dim3(across, down), dim3(TILE, TILE), 0, stream>>>(a, b, c, n);
}
