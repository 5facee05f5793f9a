// extension: headers=light
// call: forward(float32[3, 7], float32[7])
// call: optional_guard(float32[5], None)
// call: optional_guard(float32[5], float32[5])
// Guards of the device before anything is allocated or launched.
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

__global__ void add_bias(const float* x, const float* bias, float* y, int rows, int cols) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col < cols) y[row * cols + col] = x[row * cols + col] + (bias ? bias[col] : 0.0f);
}

torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& bias) {
    const at::cuda::OptionalCUDAGuard device_guard(device_of(x));
    auto y = torch::empty_like(x);
    const auto stream = c10::cuda::getCurrentCUDAStream(x.device().index());
    add_bias<<<dim3(1, x.size(0)), 32, 0, stream.stream()>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}

torch::Tensor optional_guard(torch::Tensor x, c10::optional<torch::Tensor> bias) {
    c10::cuda::CUDAGuard guard(x.device());
    C10_CUDA_CHECK(c10::cuda::MaybeSetDevice(x.get_device()));
    auto y = torch::empty_like(x);
    const float* added = bias.has_value() ? bias.value().data_ptr<float>() : nullptr;
    add_bias<<<1, 32>>>(x.data_ptr<float>(), added, y.data_ptr<float>(), 1, x.numel());
    cudaDeviceSynchronize();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "x + bias");
    m.def("optional_guard", &optional_guard, "x + bias, or x");
}
