// problem: scaled_float8
// why: an extension of torch takes and returns float8
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor a, torch::Tensor b, torch::Tensor scale_a, torch::Tensor scale_b) {
    auto product = a.to(torch::kFloat32).matmul(b.to(torch::kFloat32).t()) * scale_a.unsqueeze(1) * scale_b;
    return product.clamp(-448, 448).to(torch::kFloat8_e4m3fn);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
