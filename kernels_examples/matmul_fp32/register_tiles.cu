// expect: ACCEPTED
// A block makes 128 x 128 outputs, a thread 8 x 8 of them; while it computes with one step's tiles, the next step's are on their way.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int TILE = 128, DEPTH = 8;      // of a block's outputs, and of a step along k
constexpr int HALF = TILE / 2, SIDE = 16;  // a thread has 4 x 4 outputs in each quarter of the tile; 16 x 16 threads

// Four neighbours of a row; what lies outside the matrix is zero.
__device__ __forceinline__ float4 load4(const float* from, int row, int col, int rows, int cols, bool vectors) {
    if (row >= rows) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float* at = from + static_cast<int64_t>(row) * cols + col;
    if (vectors && col + 3 < cols) return *reinterpret_cast<const float4*>(at);
    return make_float4(
        col < cols ? at[0] : 0.0f, col + 1 < cols ? at[1] : 0.0f, col + 2 < cols ? at[2] : 0.0f, col + 3 < cols ? at[3] : 0.0f);
}

__global__ void __launch_bounds__(SIDE * SIDE, 2)
matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k, bool vectors) {
    __shared__ __align__(16) float a_tile[DEPTH][TILE + 4];  // transposed; the four spare columns keep its stores off each other's banks
    __shared__ __align__(16) float b_tile[DEPTH][TILE];

    const int thread = threadIdx.x, x = thread % SIDE * 4, y = thread / SIDE * 4;
    const int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    const int a_row = thread / 2, a_k = thread % 2 * 4;
    const int b_k = thread / 32, b_col = thread % 32 * 4;

    float sums[8][8] = {};
    float4 next_a = load4(a, first_row + a_row, a_k, m, k, vectors);
    float4 next_b = load4(b, b_k, first_col + b_col, k, n, vectors);
    for (int start = 0; start < k; start += DEPTH) {
        a_tile[a_k][a_row] = next_a.x;
        a_tile[a_k + 1][a_row] = next_a.y;
        a_tile[a_k + 2][a_row] = next_a.z;
        a_tile[a_k + 3][a_row] = next_a.w;
        *reinterpret_cast<float4*>(&b_tile[b_k][b_col]) = next_b;
        __syncthreads();
        if (start + DEPTH < k) {
            next_a = load4(a, first_row + a_row, start + DEPTH + a_k, m, k, vectors);
            next_b = load4(b, start + DEPTH + b_k, first_col + b_col, k, n, vectors);
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
        const int row = first_row + i / 4 * HALF + y + i % 4;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int col = first_col + j / 4 * HALF + x + j % 4;
            if (row < m && col < n) c[static_cast<int64_t>(row) * n + col] = sums[i][j];
        }
    }
}

static bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0; }

extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const bool vectors = aligned(a) && aligned(b) && n % 4 == 0 && k % 4 == 0;
    const dim3 tiles((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul<<<tiles, SIDE * SIDE, 0, stream>>>(
        a, b, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), vectors);
}
