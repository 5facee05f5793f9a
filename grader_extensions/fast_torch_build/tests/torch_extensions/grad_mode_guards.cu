// extension: headers=light
// call: forward(float32[10], float32[10])
// call: below_autograd(float32[10])
// Guards of torch's dispatch and of its grad mode.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/extension.h>

__global__ void clip(float* x, float limit, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = fminf(fmaxf(x[i], -limit), limit);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor residual) {
    torch::NoGradGuard no_grad;
    auto y = x.detach().clone();
    clip<<<1, 32>>>(y.data_ptr<float>(), 0.5f, y.numel());
    y.add_(residual);
    return y.set_requires_grad(false);
}

torch::Tensor below_autograd(torch::Tensor x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return at::mul(x, x);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("below_autograd", &below_autograd);
}
