// extension: headers=light
// call: forward(2.5)
// call: qualified(3)
// Tensors of numbers: ATen and torch have a function of that name each, and their dtypes differ.
#include <torch/extension.h>
#include <vector>

using namespace torch;

std::vector<Tensor> forward(double value) {
    return {tensor({1.5, value}), tensor(value), tensor({1, 2, 3}), tensor({1.5, 2.5}, kFloat64)};
}

std::vector<torch::Tensor> qualified(int64_t n) {
    return {torch::tensor({1.5, 2.5}), at::tensor({1.5, 2.5}), torch::tensor(n), at::tensor(n), torch::tensor(std::vector<double>{1, 2})};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("qualified", &qualified);
}
