// extension: headers=light
// call: forward(float32[30])
// call: forward(float32[30], 3)
// call: forward(float32[30], 3, True)
// call: forward(x=float32[30], mode="square", count=2)
// call: forward(float32[30], 2, False, 0.5, "shift")
// call: kinds(3, 2.5, True, "seven")
// call: scalar(float32[4], 3, True)
// call: scalar(float32[4], 2.5, False)
// raises: forward(float32[30], mode="cube")
// raises: kinds("3", 2.5, True, "seven")
// Numbers, flags and words as arguments, by place and by name, with defaults and documentation.
#include <torch/extension.h>
#include <cstdint>
#include <stdexcept>
#include <string>

__global__ void repeat_kernel(float* x, int n, int count, bool negate, float amount, bool square) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    for (int k = 0; k < count; ++k) value = square ? value * value : value + amount;
    x[i] = negate ? -value : value;
}

torch::Tensor repeated(torch::Tensor x, int count, bool negate, float amount, const std::string& mode) {
    if (mode != "square" && mode != "shift") throw std::invalid_argument("unknown mode: " + mode);
    auto y = x.clone();
    repeat_kernel<<<1, 32>>>(y.data_ptr<float>(), y.numel(), count, negate, amount, mode == "square");
    return y;
}

std::string kinds(int64_t a, double b, bool c, std::string d) {
    return std::to_string(a) + " " + std::to_string(b) + (c ? " true " : " false ") + d;
}

torch::Tensor scalar(torch::Tensor x, double number, bool whole) {
    const torch::Scalar s = whole ? torch::Scalar(static_cast<int64_t>(number)) : torch::Scalar(number);
    return s.isIntegral(false) ? x + s.to<int64_t>() : x * s.toFloat();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "arguments of every kind";
    m.def("forward", &repeated, R"doc(
Shift or square x, `count` times.
)doc",
          py::arg("x"), py::arg("count") = 1, py::arg("negate") = false, py::arg("amount") = 1.0f, py::arg("mode") = "shift");
    m.def("kinds", &kinds);
    m.def("scalar", &scalar);
}
