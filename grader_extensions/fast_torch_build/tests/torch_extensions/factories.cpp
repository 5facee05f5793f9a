// extension: headers=light
// call: forward(float32[3, 4])
// call: likes(float64[2, 5])
// call: from_host(5)
// Every usual way to make a tensor.
#include <torch/extension.h>
#include <vector>

std::vector<torch::Tensor> forward(torch::Tensor x) {
    auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
    return {
        torch::zeros({2, 3}, options),
        torch::ones({2, 3}, x.options()),
        torch::full({3}, 2.5, options),
        torch::full({x.size(0), x.size(1)}, 7, torch::kInt64),
        torch::empty({0, 4}, options),
        torch::arange(10),
        torch::arange(0, 5, options),
        torch::arange(1, 2, 0.25, torch::kFloat64),
        torch::linspace(0, 1, 5),
        torch::eye(3),
        torch::tensor({1.0f, 2.0f, 3.0f}),
        torch::tensor({1, 2, 3}, torch::kInt32),
        torch::tensor(3.5),
        torch::zeros(x.sizes(), x.options().dtype(torch::kBool)),
        torch::zeros({x.size(-1)}, torch::kFloat16),
        torch::scalar_tensor(2.0, options),
    };
}

std::vector<torch::Tensor> likes(torch::Tensor x) {
    auto grid = torch::empty_like(x, x.options().dtype(torch::kInt32)).zero_();
    return {torch::zeros_like(x), torch::ones_like(x), torch::full_like(x, 4), torch::empty_like(x).fill_(0.5), grid,
            x.new_zeros({3, 2}), x.new_full({2}, 1.5), x.new_empty({4}).fill_(1), x.new_ones({1, 1})};
}

torch::Tensor from_host(int64_t n) {
    std::vector<float> values(n);
    for (int64_t i = 0; i < n; ++i) values[i] = 1.0f / (i + 1);
    return torch::from_blob(values.data(), {n}, torch::kFloat32).clone();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("likes", &likes);
    m.def("from_host", &from_host, py::arg("n"));
}
