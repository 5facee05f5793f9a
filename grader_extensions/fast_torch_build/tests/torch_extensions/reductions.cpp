// extension: headers=light
// call: forward(float32[5, 7])
// call: numbers(float32[5, 7])
// call: with_indices(float64[3, 4])
// Reductions to tensors, to numbers, and to pairs of values and indices.
#include <torch/extension.h>

std::vector<at::Tensor> forward(const at::Tensor& x) {
    return {x.sum(),       x.sum(0),           x.sum(at::IntArrayRef({0, 1})),       x.sum(1, /*keepdim=*/true), at::sum(x), at::sum(x, 0),
            x.mean(),      x.mean(1),          torch::mean(x, at::IntArrayRef({0})), x.max(),                    x.min(),    x.argmax(1),
            x.amax(1),     x.amin({0}, true),  x.prod(),            x.norm(),                   x.std(),    x.var(0),
            x.cumsum(1),   (x > 0).any(),      (x > 0).all(),       x.logsumexp(1),             x.abs().sum(-1), torch::softmax(x, -1),
            x.softmax(1),  torch::log_softmax(x, 1)};
}

std::vector<double> numbers(const at::Tensor& x) {
    const auto total = x.sum().item<float>();
    const double mean = x.mean().item().toDouble();
    const bool any = x.gt(0).any().item<bool>();
    const int64_t place = x.argmax().item<int64_t>();
    return {total, mean, any ? 1.0 : 0.0, static_cast<double>(place), x.max().item<double>(), static_cast<double>((x > 0).sum().item<int>())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> with_indices(const at::Tensor& x) {
    auto [values, indices] = x.max(1);
    auto smallest = x.min(/*dim=*/0, /*keepdim=*/true);
    auto sorted = std::get<0>(torch::sort(x, 1));
    return {values + std::get<0>(smallest).sum(), indices, sorted};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("numbers", &numbers);
    m.def("with_indices", &with_indices);
}
