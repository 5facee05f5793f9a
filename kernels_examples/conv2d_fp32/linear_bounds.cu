// expect: WRONG_ANSWER MISMATCH
// All that is checked is that the index lies in the plane: left of a row's first pixel is the row above's last, not a zero.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int KERNEL = 11, STRIDE = 4, PADDING = 2;

__global__ void convolve(
    const float* x, const float* weight, const float* bias, float* y, int64_t channels, int64_t filters, int64_t height, int64_t width,
    int64_t out_height, int64_t out_width, int64_t outputs) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= outputs) return;
    const int64_t out_col = i % out_width, out_row = i / out_width % out_height;
    const int64_t filter = i / (out_width * out_height) % filters, image = i / (out_width * out_height * filters);

    float sum = bias[filter];
    for (int64_t channel = 0; channel < channels; ++channel) {
        const float* plane = x + (image * channels + channel) * height * width;
        const float* taps = weight + (filter * channels + channel) * KERNEL * KERNEL;
        for (int r = 0; r < KERNEL; ++r) {
            for (int c = 0; c < KERNEL; ++c) {
                const int64_t at = (out_row * STRIDE - PADDING + r) * width + out_col * STRIDE - PADDING + c;
                if (at >= 0 && at < height * width) sum += plane[at] * taps[r * KERNEL + c];
            }
        }
    }
    y[i] = sum;
}

extern "C" void solve(
    const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t filters,
    int64_t height, int64_t width, int64_t out_height, int64_t out_width, cudaStream_t stream) {
    const int64_t outputs = batch * filters * out_height * out_width;
    convolve<<<(outputs + 127) / 128, 128, 0, stream>>>(
        x, weight, bias, y, channels, filters, height, width, out_height, out_width, outputs);
}
