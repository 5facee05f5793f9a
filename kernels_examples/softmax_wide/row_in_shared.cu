// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// A row of 65536 floats is 256 KiB and a block has at most 227: the launch is refused, and who asks for no error hears of none.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ float reduce(float* scratch, float value, bool maximum) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const float other = scratch[threadIdx.x + half];
            scratch[threadIdx.x] = maximum ? fmaxf(scratch[threadIdx.x], other) : scratch[threadIdx.x] + other;
        }
        __syncthreads();
    }
    const float result = scratch[0];
    __syncthreads();
    return result;
}

__global__ void softmax(const float* x, float* y, int64_t cols) {
    extern __shared__ float row[];
    __shared__ float scratch[THREADS];
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) top = fmaxf(top, row[j] = in[j]);
    top = reduce(scratch, top, true);
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) sum += row[j] = expf(row[j] - top);
    sum = reduce(scratch, sum, false);
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) out[j] = row[j] / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    const size_t bytes = cols * sizeof(float);
    cudaFuncSetAttribute(softmax, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    softmax<<<rows, THREADS, bytes, stream>>>(x, y, cols);
}
