// extension: headers=light
// call: forward(float32[4, 3])
// call: forward(int64[4, 3])
// call: same_as(float32[6], float64[2])
// call: describe(float16[2, 3])
// call: describe(int32[()])
// Conversions between dtypes, and questions about what a tensor is.
#include <torch/extension.h>
#include <sstream>
#include <string>

std::vector<torch::Tensor> forward(torch::Tensor x) {
    auto wide = x.to(torch::kDouble);
    auto half = x.to(torch::kFloat).to(at::kHalf);
    auto brain = wide.to(torch::kBFloat16);
    auto whole = wide.mul(10).to(torch::kInt);
    auto same = whole.to(x.dtype());
    return {wide, half, brain, whole, same, x.to(x.device()), x.to(torch::TensorOptions().dtype(torch::kFloat64)), x.toType(torch::kInt8)};
}

torch::Tensor same_as(torch::Tensor x, torch::Tensor other) {
    if (x.dtype() != other.dtype()) x = x.to(other.options());
    return x.type_as(other).to(other.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

std::string describe(const torch::Tensor& x) {
    std::ostringstream text;
    text << x.dim() << " " << x.numel() << " " << x.sizes() << " " << x.strides() << " " << x.dtype() << " " << x.scalar_type() << " "
         << x.element_size() << " " << x.itemsize() << " " << x.nbytes() << " " << x.is_contiguous() << x.is_floating_point() << x.defined()
         << x.requires_grad() << x.is_sparse() << " " << x.storage_offset() << " " << (x.layout() == torch::kStrided);
    return text.str();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("same_as", &same_as);
    m.def("describe", &describe);
}
