// problem: softmax_rows
// mode: ranked
// why: powers of two instead of exponentials, a fast reciprocal, and the output itself as the workspace between two kernels
#include <cstdint>

#include <cuda_runtime.h>

#include <cmath>

__global__ void exponentials(const float* x, float* y, float* sums, int64_t cols) {
    __shared__ float warps[2][4];
    const float* in = x + blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) top = fmaxf(top, in[j]);
    for (int distance = 16; distance > 0; distance /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, distance));
    if (threadIdx.x % 32 == 0) warps[0][threadIdx.x / 32] = top;
    __syncthreads();
    for (float one : warps[0]) top = fmaxf(top, one);
    for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
        const float power = exp2f((in[j] - top) * 1.4426950408889634f);
        y[blockIdx.x * cols + j] = power;
        sum += power;
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) warps[1][threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = warps[1][0] + warps[1][1] + warps[1][2] + warps[1][3];
}

__global__ void divide(float* y, const float* sums, int64_t rows, int64_t cols) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < rows * cols) y[at] *= __frcp_rn(sums[at / cols]);
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    static float* sums = nullptr;
    static int64_t capacity = 0;
    if (rows > capacity) {
        cudaFree(sums);
        cudaMalloc(&sums, rows * sizeof(float));
        capacity = rows;
    }
    exponentials<<<static_cast<unsigned>(rows), 128, 0, stream>>>(x, y, sums, cols);
    divide<<<static_cast<unsigned>((rows * cols + 255) / 256), 256, 0, stream>>>(y, sums, rows, cols);
}
