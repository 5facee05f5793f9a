// expect: ACCEPTED
// Half in memory, float everywhere else: eight halves are loaded at once and widened on their way into shared memory.
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int TILE = 128, DEPTH = 16;      // of a block's outputs, and of a step along k
constexpr int HALF = TILE / 2, SIDE = 16;  // a thread has 4 x 4 outputs in each quarter of the tile; 16 x 16 threads

// Eight neighbours of a row; what lies outside the matrix is zero.
struct Eight {
    __half2 pairs[4];
};
__device__ __forceinline__ Eight load8(const __half* from, int64_t row, int64_t col, int64_t rows, int64_t cols, bool vectors) {
    Eight result;
    if (vectors && row < rows && col + 7 < cols) {
        const uint4 bits = *reinterpret_cast<const uint4*>(from + row * cols + col);
        result = *reinterpret_cast<const Eight*>(&bits);
        return result;
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int64_t at = col + 2 * i;
        const __half zero = __float2half(0.0f);
        const __half low = row < rows && at < cols ? from[row * cols + at] : zero;
        const __half high = row < rows && at + 1 < cols ? from[row * cols + at + 1] : zero;
        result.pairs[i] = __halves2half2(low, high);
    }
    return result;
}

__global__ void __launch_bounds__(SIDE * SIDE, 2)
matmul(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int64_t m, int64_t n, int64_t k, bool vectors) {
    __shared__ __align__(16) float a_tile[DEPTH][TILE + 4];  // transposed
    __shared__ __align__(16) float b_tile[DEPTH][TILE];

    const int thread = threadIdx.x, x = thread % SIDE * 4, y = thread / SIDE * 4;
    const int64_t first_row = static_cast<int64_t>(blockIdx.y) * TILE, first_col = static_cast<int64_t>(blockIdx.x) * TILE;
    const int a_row = thread / 2, a_k = thread % 2 * 8;
    const int b_k = thread / 16, b_col = thread % 16 * 8;

    float sums[8][8] = {};
    Eight next_a = load8(a, first_row + a_row, a_k, m, k, vectors);
    Eight next_b = load8(b, b_k, first_col + b_col, k, n, vectors);
    for (int64_t start = 0; start < k; start += DEPTH) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 left = __half22float2(next_a.pairs[i]), right = __half22float2(next_b.pairs[i]);
            a_tile[a_k + 2 * i][a_row] = left.x;
            a_tile[a_k + 2 * i + 1][a_row] = left.y;
            b_tile[b_k][b_col + 2 * i] = right.x;
            b_tile[b_k][b_col + 2 * i + 1] = right.y;
        }
        __syncthreads();
        if (start + DEPTH < k) {
            next_a = load8(a, first_row + a_row, start + DEPTH + a_k, m, k, vectors);
            next_b = load8(b, start + DEPTH + b_k, first_col + b_col, k, n, vectors);
        }
        #pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            float left[8], right[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                left[i] = a_tile[step][i / 4 * HALF + y + i % 4];
                right[i] = b_tile[step][i / 4 * HALF + x + i % 4];
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int64_t row = first_row + i / 4 * HALF + y + i % 4;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int64_t col = first_col + j / 4 * HALF + x + j % 4;
            if (row < m && col < n) c[row * n + col] = __float2half(sums[i][j]);
        }
    }
}

static bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(uint4) == 0; }

extern "C" void solve(const __half* a, const __half* b, __half* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const bool vectors = aligned(a) && aligned(b) && n % 8 == 0 && k % 8 == 0;
    const dim3 tiles((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul<<<tiles, SIDE * SIDE, 0, stream>>>(a, b, c, m, n, k, vectors);
}
