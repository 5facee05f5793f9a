// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// A block of 256 threads, one column each, covers rows of up to 256 columns; longer ones need a loop.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void softmax(const float* x, float* y, int64_t cols) {
    __shared__ float values[THREADS];
    const int64_t j = threadIdx.x;
    const int64_t width = cols < THREADS ? cols : THREADS;
    if (j < width) values[j] = x[blockIdx.x * cols + j];
    __syncthreads();

    float top = -INFINITY, sum = 0.0f;
    for (int64_t k = 0; k < width; ++k) top = fmaxf(top, values[k]);
    for (int64_t k = 0; k < width; ++k) sum += expf(values[k] - top);
    if (j < width) y[blockIdx.x * cols + j] = expf(values[j] - top) / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, THREADS, 0, stream>>>(x, y, cols);
}
