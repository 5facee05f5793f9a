// extension: headers=light
// call: forward(float32[4, 5], float32[4, 5])
// call: forward(float64[3], float64[1])
// call: in_place(float32[6], float32[6])
// raises: forward(float32[4, 5], float32[3, 5])
// Arithmetic and comparisons between tensors and numbers, written as operators.
#include <torch/extension.h>

std::vector<torch::Tensor> forward(torch::Tensor a, torch::Tensor b) {
    return {a + b,  a - b,  a * b,  a / b,  -a,         a + 1,      1 + a,  2.0 * a,  a * 2.0f, 1.0 / b,  a - 0.5, 3 - a,  a / 2,
            a == b, a != b, a < b,  a <= b, a > b,      a >= b,     a == 0, a != 1.5, a > 0,    a < 0.25, a >= 0,  a <= 1, torch::logical_not(a > 0),
            ~(a > 0), (a > 0) & (b > 0), (a > 0) | (b > 0), (a > 0) ^ (b > 0), (a + b) * (a - b) / (a * a + 1.0)};
}

torch::Tensor in_place(torch::Tensor a, torch::Tensor b) {
    torch::Tensor c = a.clone();
    c += b;
    c -= 0.5;
    c *= 2;
    c /= b.abs() + 1.0;
    c *= a;
    c += 1;
    b.add_(c).mul_(2).sub_(a).div_(3.0);
    b.clamp_(-10, 10).relu_();
    a.copy_(c).neg_();
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("in_place", &in_place);
}
