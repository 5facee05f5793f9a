// problem: matmul
// why: one warp of a block only loads and three only compute, so that most threads never touch the inputs
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int ROWS = 12, COLUMNS = 8, DEPTH = 16;

__global__ void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    __shared__ float left[2][ROWS][DEPTH], right[2][DEPTH][COLUMNS];
    const bool loads = threadIdx.x < 32;
    const int lane = threadIdx.x % 32, worker = threadIdx.x - 32;
    const int64_t top = static_cast<int64_t>(blockIdx.y) * ROWS, first = static_cast<int64_t>(blockIdx.x) * COLUMNS;
    const auto load = [&](int stage, int64_t begin) {
        for (int at = lane; at < ROWS * DEPTH; at += 32) {
            const int64_t row = top + at / DEPTH, i = begin + at % DEPTH;
            left[stage][at / DEPTH][at % DEPTH] = row < m && i < k ? a[row * k + i] : 0.0f;
        }
        for (int at = lane; at < DEPTH * COLUMNS; at += 32) {
            const int64_t i = begin + at / COLUMNS, column = first + at % COLUMNS;
            right[stage][at / COLUMNS][at % COLUMNS] = i < k && column < n ? b[i * n + column] : 0.0f;
        }
    };
    float sum = 0.0f;
    if (loads) load(0, 0);
    __syncthreads();
    int stage = 0;
    for (int64_t begin = 0; begin < k; begin += DEPTH, stage ^= 1) {
        if (loads) {
            if (begin + DEPTH < k) load(stage ^ 1, begin + DEPTH);
        } else {
            for (int i = 0; i < DEPTH; ++i) sum += left[stage][worker / COLUMNS][i] * right[stage][i][worker % COLUMNS];
        }
        __syncthreads();
    }
    if (loads) return;
    const int64_t row = top + worker / COLUMNS, column = first + worker % COLUMNS;
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>((n + COLUMNS - 1) / COLUMNS), static_cast<unsigned>((m + ROWS - 1) / ROWS));
    product<<<grid, 128, 0, stream>>>(a, b, c, m, n, k);
}
