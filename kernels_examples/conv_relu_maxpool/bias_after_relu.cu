// expect: WRONG_ANSWER MISMATCH
// The bias is added after ReLU: a negative one makes outputs negative, and a positive one no longer lifts sums over zero.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void fused(
    const float* x, const float* weight, const float* bias, float* y, int64_t channels, int64_t filters, int64_t height, int64_t width,
    int64_t pooled_height, int64_t pooled_width, int64_t outputs) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= outputs) return;
    const int64_t pooled_col = i % pooled_width, pooled_row = i / pooled_width % pooled_height;
    const int64_t filter = i / (pooled_width * pooled_height) % filters, image = i / (pooled_width * pooled_height * filters);

    float largest = 0.0f;
    for (int at = 0; at < 4; ++at) {
        float sum = 0.0f;
        for (int64_t tap = 0; tap < channels * 9; ++tap) {
            const int64_t channel = tap / 9;
            int64_t row = 2 * pooled_row + at / 2 + tap % 9 / 3 - 1, col = 2 * pooled_col + at % 2 + tap % 3 - 1;
            if (row < 0 || row >= height || col < 0 || col >= width) continue;
            sum += x[((image * channels + channel) * height + row) * width + col] * weight[filter * channels * 9 + tap];
        }
        largest = fmaxf(largest, sum);
    }
    y[i] = largest + bias[filter];
}

extern "C" void solve(
    const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t filters,
    int64_t height, int64_t width, int64_t pooled_height, int64_t pooled_width, cudaStream_t stream) {
    const int64_t outputs = batch * filters * pooled_height * pooled_width;
    fused<<<(outputs + 127) / 128, 128, 0, stream>>>(
        x, weight, bias, y, channels, filters, height, width, pooled_height, pooled_width, outputs);
}
