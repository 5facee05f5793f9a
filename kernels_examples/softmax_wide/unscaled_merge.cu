// expect: WRONG_ANSWER MISMATCH
// Each thread's sum is relative to the thread's own maximum, and they are added as if all had the same: rescale before adding.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void softmax(const float* x, float* y, int64_t cols) {
    __shared__ float tops[THREADS], sums[THREADS];
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) {
        const float larger = fmaxf(top, in[j]);
        sum = sum * expf(top - larger) + expf(in[j] - larger);
        top = larger;
    }
    tops[threadIdx.x] = top;
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            tops[threadIdx.x] = fmaxf(tops[threadIdx.x], tops[threadIdx.x + half]);
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) out[j] = expf(in[j] - tops[0]) / sums[0];
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, THREADS, 0, stream>>>(x, y, cols);
}
