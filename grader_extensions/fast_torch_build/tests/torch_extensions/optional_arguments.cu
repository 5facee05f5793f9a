// extension: headers=light
// call: forward(float32[12], None, None)
// call: forward(float32[12], float32[12], None)
// call: forward(float32[12], None, 0.5)
// call: forward(float32[12], float32[12], 2, [1, 2, 3])
// call: maybe(float32[3], True)
// call: maybe(float32[3], False)
// std::optional of tensors, numbers and lists, and an optional result.
#include <torch/extension.h>
#include <optional>

__global__ void fused(const float* x, const float* mask, float* y, int n, float scale) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (mask == nullptr || mask[i] > 0.f) ? x[i] * scale : 0.f;
}

at::Tensor forward(const at::Tensor& x, const std::optional<at::Tensor>& mask, std::optional<double> scale, c10::optional<std::vector<int64_t>> shape) {
    auto y = at::empty_like(x);
    const float* mask_ptr = nullptr;
    if (mask.has_value()) {
        TORCH_CHECK(mask->sizes() == x.sizes(), "mask and x differ");
        mask_ptr = mask->contiguous().data_ptr<float>();
    }
    fused<<<1, 32>>>(x.data_ptr<float>(), mask_ptr, y.data_ptr<float>(), x.numel(), static_cast<float>(scale.value_or(1.0)));
    if (shape) {
        int64_t factor = 1;
        for (auto s : *shape) factor *= s;
        y.mul_(factor);
    }
    return y;
}

std::optional<at::Tensor> maybe(at::Tensor x, bool wanted) {
    if (!wanted) return std::nullopt;
    return x + 1;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, py::arg("x"), py::arg("mask") = std::nullopt, py::arg("scale") = c10::nullopt, py::arg("shape") = py::none());
    m.def("maybe", &maybe);
}
