// extension: headers=light
// call: forward(float32[40], float32[40], float32[40], float32[40] % 1, 1e-3, 0.9, 0.999, 1e-8, 3)
// call: forward(float64[3], float64[3], float64[3], float64[3] % 1, lr=0.1, beta1=0.9, beta2=0.99, eps=1e-8, step=1)
// Returns nothing: what it did is in its arguments.
#include <torch/extension.h>
#include <cmath>

template <typename scalar_t>
__global__ void adam_kernel(scalar_t* __restrict__ p, const scalar_t* __restrict__ g, scalar_t* __restrict__ m, scalar_t* __restrict__ v,
                            const scalar_t rate, const scalar_t b1, const scalar_t b2, const scalar_t eps, const int64_t n) {
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    p[i] -= rate * m[i] / (sqrt(v[i]) + eps);
}

void adam(torch::Tensor& p, const torch::Tensor& g, torch::Tensor& m, torch::Tensor& v, double lr, double beta1, double beta2, double eps, int step) {
    const double rate = lr * std::sqrt(1.0 - std::pow(beta2, step)) / (1.0 - std::pow(beta1, step));
    AT_DISPATCH_FLOATING_TYPES(p.scalar_type(), "adam", ([&] {
        adam_kernel<scalar_t><<<(p.numel() + 31) / 32, 32>>>(
            p.data_ptr<scalar_t>(), g.data_ptr<scalar_t>(), m.data_ptr<scalar_t>(), v.data_ptr<scalar_t>(),
            scalar_t(rate), scalar_t(beta1), scalar_t(beta2), scalar_t(eps), p.numel());
    }));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &adam, "Adam (CUDA)", py::arg("p"), py::arg("g"), py::arg("m"), py::arg("v"), py::arg("lr"), py::arg("beta1"),
          py::arg("beta2"), py::arg("eps"), py::arg("step"));
}
