// problem: row_statistics
// why: the entry takes its outputs first and its sizes as int, under its own names but for two; a float pointer could be either of two
#include <cuda_runtime.h>

__global__ void statistics(float* mean, float* variance, long long* top, const float* in, int num_rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= num_rows) return;
    const float* at = in + static_cast<long long>(row) * width;
    float sum = 0.0f, squares = 0.0f;
    int best = 0;
    for (int j = 0; j < width; ++j) {
        sum += at[j];
        if (at[j] > at[best]) best = j;
    }
    mean[row] = sum / width;
    for (int j = 0; j < width; ++j) squares += (at[j] - mean[row]) * (at[j] - mean[row]);
    variance[row] = squares / width;
    top[row] = best;
}

extern "C" void solve(float* variance, float* mean, long long* top, const float* in, int num_rows, int width) {
    statistics<<<(num_rows + 63) / 64, 64>>>(mean, variance, top, in, num_rows, width);
}
