// problem: transposed
// why: reads one input across its rows and leaves gaps in the other, as the strides say that the file gives them
#include <cuda_runtime.h>
#include <cstdint>

__global__ void affine(const float* from, int64_t row, int64_t column, float* to, int64_t rows, int64_t columns) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < rows * columns) to[i] = from[i / columns * row + i % columns * column] * 2 + 1;
}

extern "C" void solve(const float* turned, const float* cut, float* output0, float* output1, int64_t rows, int64_t columns) {
    int blocks = (rows * columns + 255) / 256;
    affine<<<blocks, 256>>>(turned, 1, rows, output0, rows, columns);
    affine<<<blocks, 256>>>(cut, 64, 1, output1, rows, columns);
}
