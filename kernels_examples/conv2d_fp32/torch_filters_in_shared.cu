// expect: ACCEPTED
// A channel of eight filters lies in shared memory, and a thread makes eight outputs at one pixel: each input it reads is used eight times.
#include <torch/extension.h>

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

constexpr int KERNEL = 11, STRIDE = 4, PADDING = 2, TAPS = KERNEL * KERNEL;
constexpr int FILTERS = 8, THREADS = 128;

__global__ void __launch_bounds__(THREADS) convolve_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y,
    int channels, int filters, int height, int width, int out_height, int out_width) {
    __shared__ float taps[TAPS][FILTERS];
    const int pixel = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * FILTERS;
    const int64_t image = blockIdx.z;
    const bool active = pixel < out_height * out_width;
    const int top = pixel / out_width * STRIDE - PADDING, left = pixel % out_width * STRIDE - PADDING;

    float sums[FILTERS] = {};
    for (int channel = 0; channel < channels; ++channel) {
        for (int i = threadIdx.x; i < TAPS * FILTERS; i += THREADS) {
            const int filter = i / TAPS, tap = i % TAPS;
            taps[tap][filter] =
                first + filter < filters ? weight[(static_cast<int64_t>(first + filter) * channels + channel) * TAPS + tap] : 0.0f;
        }
        __syncthreads();
        const float* plane = x + (image * channels + channel) * height * width;
        for (int r = 0; active && r < KERNEL; ++r) {
            if (top + r < 0 || top + r >= height) continue;
            for (int c = 0; c < KERNEL; ++c) {
                if (left + c < 0 || left + c >= width) continue;
                const float value = plane[(top + r) * width + left + c];
                #pragma unroll
                for (int f = 0; f < FILTERS; ++f) sums[f] += value * taps[r * KERNEL + c][f];
            }
        }
        __syncthreads();
    }
    for (int f = 0; active && f < FILTERS && first + f < filters; ++f) {
        y[(image * filters + first + f) * out_height * out_width + pixel] = sums[f] + bias[first + f];
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    TORCH_CHECK(weight.size(2) == KERNEL && weight.size(3) == KERNEL, "filters must be 11 x 11");
    x = x.contiguous();
    weight = weight.contiguous();
    const int filters = weight.size(0), height = x.size(2), width = x.size(3);
    const int out_height = (height + 2 * PADDING - KERNEL) / STRIDE + 1, out_width = (width + 2 * PADDING - KERNEL) / STRIDE + 1;
    auto y = torch::empty({x.size(0), filters, out_height, out_width}, x.options());
    const dim3 blocks((out_height * out_width + THREADS - 1) / THREADS, (filters + FILTERS - 1) / FILTERS, x.size(0));
    convolve_kernel<<<blocks, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
        x.size(1), filters, height, width, out_height, out_width);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "convolution with 11 x 11 filters");
}
