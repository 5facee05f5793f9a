// extension: headers=light
// call: forward(float32[2, 3, 9, 9], float32[4, 3, 3, 3], float32[4])
// call: forward(float32[2, 3, 9, 9], float32[4, 3, 3, 3], None, 2, 1)
// call: forward(x=float32[1, 1, 5, 5], weight=float32[1, 1, 3, 3], padding=1)
// raises: forward(float32[1, 2, 5, 5], float32[1, 3, 3, 3])
// Direct convolution; the bias may be None, and steps have defaults.
#include <torch/extension.h>
#include <optional>

__global__ void conv2d_kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ out,
                              int batch, int in_channels, int height, int width, int out_channels, int kernel_h, int kernel_w, int out_h, int out_w,
                              int stride, int padding) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= batch * out_channels * out_h * out_w) return;
    const int ow = index % out_w;
    const int oh = (index / out_w) % out_h;
    const int oc = (index / (out_w * out_h)) % out_channels;
    const int n = index / (out_w * out_h * out_channels);

    float value = bias != nullptr ? bias[oc] : 0.0f;
    for (int ic = 0; ic < in_channels; ++ic) {
        for (int kh = 0; kh < kernel_h; ++kh) {
            for (int kw = 0; kw < kernel_w; ++kw) {
                const int ih = oh * stride - padding + kh, iw = ow * stride - padding + kw;
                if (ih >= 0 && ih < height && iw >= 0 && iw < width) {
                    value += x[((n * in_channels + ic) * height + ih) * width + iw] * weight[((oc * in_channels + ic) * kernel_h + kh) * kernel_w + kw];
                }
            }
        }
    }
    out[index] = value;
}

torch::Tensor conv2d(torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, int64_t stride, int64_t padding) {
    TORCH_CHECK(x.is_cuda() && weight.is_cuda(), "tensors must be on the GPU");
    TORCH_CHECK(x.size(1) == weight.size(1), "x has ", x.size(1), " channels, weight takes ", weight.size(1));
    x = x.contiguous();
    weight = weight.contiguous();
    const auto batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const auto out_channels = weight.size(0), kernel_h = weight.size(2), kernel_w = weight.size(3);
    const auto out_h = (height + 2 * padding - kernel_h) / stride + 1;
    const auto out_w = (width + 2 * padding - kernel_w) / stride + 1;
    auto out = torch::empty({batch, out_channels, out_h, out_w}, x.options());
    const float* bias_ptr = bias.has_value() ? bias->data_ptr<float>() : nullptr;
    const int threads = 128;
    const int blocks = (out.numel() + threads - 1) / threads;
    conv2d_kernel<<<blocks, threads>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias_ptr, out.data_ptr<float>(), batch, channels, height, width,
                                       out_channels, kernel_h, kernel_w, out_h, out_w, stride, padding);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &conv2d, "2D convolution", py::arg("x"), py::arg("weight"), py::arg("bias") = py::none(), py::arg("stride") = 1,
          py::arg("padding") = 0);
}
