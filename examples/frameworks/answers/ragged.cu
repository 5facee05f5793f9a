// expect: ACCEPTED
// A thread per row, up to its length.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void mean_of_row(const float* x, const int64_t* length, float* mean, int64_t batch, int64_t cols) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= batch) return;
    double sum = 0.0;
    for (int64_t i = 0; i < length[row]; ++i) sum += x[row * cols + i];
    mean[row] = static_cast<float>(sum / length[row]);
}

extern "C" void solve(
    const float* x, const int64_t* length, float* mean, int64_t batch, int64_t cols, cudaStream_t stream) {
    mean_of_row<<<static_cast<unsigned>((batch + 63) / 64), 64, 0, stream>>>(x, length, mean, batch, cols);
}
