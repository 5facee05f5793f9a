// expect: WRONG_ANSWER
// The tree has no barrier between its levels: a thread adds sums that their owners have not finished.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void softmax(const float* x, float* y, int64_t cols) {
    __shared__ float tree[THREADS];
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    float top = -INFINITY;
    for (int64_t j = 0; j < cols; ++j) top = fmaxf(top, in[j]);

    float sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) sum += expf(in[j] - top);
    tree[threadIdx.x] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    }
    __syncthreads();
    sum = tree[0];

    for (int64_t j = threadIdx.x; j < cols; j += THREADS) out[j] = expf(in[j] - top) / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, THREADS, 0, stream>>>(x, y, cols);
}
