// extension: headers=light
// call: forward(float32[6, 8], float32[5, 8], float32[5])
// call: attention(float32[2, 4, 8], float32[2, 4, 8], float32[2, 4, 8])
// call: free_functions(float32[4, 4], float32[4, 4])
// No kernel at all: what people call of torch from C++.
#include <ATen/ATen.h>
#include <torch/extension.h>
#include <cmath>

at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    auto h = at::linear(x, weight, bias);
    return at::gelu(h) + torch::silu(h) * torch::relu(h) - at::hardtanh(h) + at::leaky_relu(h, 0.1) + torch::softplus(h);
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto scores = torch::bmm(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
    auto mask = torch::triu(torch::ones({q.size(1), k.size(1)}, torch::kBool), 1);
    scores = scores.masked_fill(mask, -INFINITY);
    return torch::softmax(scores, /*dim=*/-1).bmm(v);
}

std::vector<torch::Tensor> free_functions(torch::Tensor a, torch::Tensor b) {
    return {at::mm(a, b), torch::matmul(a, b.t()), at::add(a, b), at::sub(a, b, 2), at::mul(a, b), at::div(a, b), torch::where(a > b, a, b),
            torch::maximum(a, b), torch::minimum(a, b), torch::clamp(a, -0.5, 0.5), torch::clamp_min(a, 0), torch::tril(a), torch::triu(b),
            torch::einsum("ij,jk->ik", {a, b}), at::addmm(a, a, b), torch::exp(a), torch::log(a.abs()), torch::sqrt(a.abs()), torch::pow(a, 2), torch::rsqrt(a.abs()), torch::round(a),
            torch::dot(a.flatten(), b.flatten()), torch::cdist(a, b), torch::roll(a, 1, 0), torch::erf(a), torch::sign(a), torch::diagonal(a),
            torch::cat({a, b}, 1), torch::stack({a, b})};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("attention", &attention);
    m.def("free_functions", &free_functions);
}
