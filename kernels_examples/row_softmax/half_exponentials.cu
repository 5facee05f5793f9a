// expect: WRONG_ANSWER MISMATCH
// Each element is within the tolerance, but as a whole the answer is hundreds of times less exact than PyTorch's: the error budget refuses it.
#include <cmath>
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 128;

__global__ void softmax(const float* x, float* y, int64_t cols) {
    extern __shared__ __half exponentials[];  // of the whole row, so that expf is called once per element
    __shared__ float partial[THREADS];
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    float top = -INFINITY;
    for (int64_t j = 0; j < cols; ++j) top = fmaxf(top, in[j]);

    float sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) {
        exponentials[j] = __float2half(expf(in[j] - top));
        sum += __half2float(exponentials[j]);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int t = 0; t < THREADS; ++t) sum += partial[t];

    for (int64_t j = threadIdx.x; j < cols; j += THREADS) out[j] = __half2float(exponentials[j]) / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, THREADS, cols * sizeof(__half), stream>>>(x, y, cols);
}
