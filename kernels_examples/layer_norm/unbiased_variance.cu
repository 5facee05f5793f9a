// expect: WRONG_ANSWER
// Divided by n - 1, as statisticians do: one part in eight million at four million elements, a tenth at six, and 0 / 0 at one.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ float sum_of_block(float value) {
    __shared__ float tree[THREADS];
    tree[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    const float sum = tree[0];
    __syncthreads();
    return sum;
}

__global__ void normalise(const float* x, const float* weight, const float* bias, float* y, int64_t size) {
    const float* in = x + blockIdx.x * size;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = threadIdx.x; i < size; i += THREADS) sum += in[i];
    const float mean = sum_of_block(sum) / size;
    for (int64_t i = threadIdx.x; i < size; i += THREADS) squares += (in[i] - mean) * (in[i] - mean);
    const float variance = sum_of_block(squares) / (size - 1);
    for (int64_t i = threadIdx.x; i < size; i += THREADS) {
        y[blockIdx.x * size + i] = (in[i] - mean) * rsqrtf(variance + 1e-5f) * weight[i] + bias[i];
    }
}

extern "C" void solve(
    const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t height, int64_t width,
    cudaStream_t stream) {
    normalise<<<batch, THREADS, 0, stream>>>(x, weight, bias, y, channels * height * width);
}
