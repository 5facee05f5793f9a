// extension: headers=light
// call: forward(float32[8, 40], float32[40], float32[40])
// call: forward(float32[2, 3, 5], float32[5], float32[5], 0.1)
// call: backward(float32[4, 6], float32[4, 6], float32[4], float32[4], float32[6])
// Output, mean and reciprocal deviation as a tuple; several functions beside `forward`.
#include <torch/extension.h>
#include <tuple>

__global__ void layer_norm_kernel(const float* x, const float* gamma, const float* beta, float* y, float* mean, float* rstd, int cols, float eps) {
    const int row = blockIdx.x;
    x += row * cols;
    y += row * cols;
    __shared__ float sum, sum_of_squares;
    if (threadIdx.x == 0) {
        sum = 0.0f;
        sum_of_squares = 0.0f;
        for (int i = 0; i < cols; ++i) {
            sum += x[i];
            sum_of_squares += x[i] * x[i];
        }
        mean[row] = sum / cols;
        rstd[row] = rsqrtf(sum_of_squares / cols - mean[row] * mean[row] + eps);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[i] = (x[i] - mean[row]) * rstd[row] * gamma[i] + beta[i];
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> layer_norm(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps) {
    const int64_t cols = x.size(-1);
    const int64_t rows = x.numel() / cols;
    auto flat = x.contiguous().view({rows, cols});
    auto y = torch::empty_like(flat);
    auto mean = torch::empty({rows}, x.options());
    auto rstd = torch::empty({rows}, x.options());
    layer_norm_kernel<<<rows, 32>>>(flat.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(),
                                    mean.data_ptr<float>(), rstd.data_ptr<float>(), cols, static_cast<float>(eps));
    return std::make_tuple(y.view(x.sizes()), mean, rstd);
}

std::tuple<at::Tensor, at::Tensor> layer_norm_backward(at::Tensor grad, at::Tensor x, at::Tensor mean, at::Tensor rstd, at::Tensor gamma) {
    auto normalized = (x - mean.unsqueeze(-1)) * rstd.unsqueeze(-1);
    auto scaled = grad * gamma;
    auto grad_x = (scaled - scaled.mean(-1, true) - normalized * (scaled * normalized).mean(-1, /*keepdim=*/true)) * rstd.unsqueeze(1);
    return {grad_x, (grad * normalized).sum(0)};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &layer_norm, "layer norm", py::arg("x"), py::arg("gamma"), py::arg("beta"), py::arg("eps") = 1e-5);
    m.def("backward", &layer_norm_backward, "its gradients");
}
