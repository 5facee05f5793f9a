// extension: headers=light
// call: forward(float32[4, 3, 5, 5], float32[3], float32[3], float32[3], float32[3], True, 0.1, 1e-5)
// call: forward(float32[4, 3, 5, 5], float32[3], float32[3], float32[3], float32[3], training=False)
// Statistics by torch, the affine part by a kernel; running statistics are updated in place.
#include <torch/extension.h>
#include <vector>

using torch::Tensor;

__global__ void affine(const float* x, const float* scale, const float* shift, float* y, int channels, int area, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
        const int c = (i / area) % channels;
        y[i] = x[i] * scale[c] + shift[c];
    }
}

std::vector<Tensor> forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var, bool training,
                            float momentum, float eps) {
    Tensor mean, var;
    if (training) {
        mean = x.mean({0, 2, 3});
        var = x.var({0, 2, 3}, /*unbiased=*/false);
        running_mean.mul_(1 - momentum).add_(mean, momentum);
        running_var.mul_(1 - momentum).add_(var, momentum);
    } else {
        mean = running_mean;
        var = running_var.abs();
    }
    Tensor scale = weight * torch::rsqrt(var + eps);
    Tensor shift = bias - mean * scale;
    Tensor y = torch::empty_like(x);
    const int channels = x.size(1), area = x.size(2) * x.size(3);
    affine<<<2, 64>>>(x.data_ptr<float>(), scale.data_ptr<float>(), shift.data_ptr<float>(), y.data_ptr<float>(), channels, area, x.numel());
    return {y, mean, var};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("running_mean"), py::arg("running_var"),
          py::arg("training") = true, py::arg("momentum") = 0.1f, py::arg("eps") = 1e-5f);
}
