// extension: headers=light
// call: forward(float32[3, 3], float32[3, 3])
// call: exp(float32[4])
// call: floor(float32[4])
// call: mul(float32[4], float32[4])
// Names of operators that stand in macros only, some of them glued together there.
#include <torch/extension.h>

#define UNARY(OP) torch::Tensor OP##_of(const torch::Tensor& x) { return torch::OP(x); }
#define IN_PLACE(OP) x.OP##_()
#define BINARY(NAME) m.def(#NAME, [](torch::Tensor a, torch::Tensor b) { return a.NAME(b); })
#define FOR_EACH_UNARY(APPLY) APPLY(exp) APPLY(log1p) APPLY(sin) APPLY(floor) APPLY(rsqrt)

FOR_EACH_UNARY(UNARY)

torch::Tensor forward(torch::Tensor x, torch::Tensor y) {
    IN_PLACE(abs);
    IN_PLACE(sqrt);
    return exp_of(x) + log1p_of(x) * sin_of(y) - floor_of(y) + rsqrt_of(x + 1);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("exp", &exp_of);
    m.def("floor", &floor_of);
    BINARY(mul);
    BINARY(maximum);
}
