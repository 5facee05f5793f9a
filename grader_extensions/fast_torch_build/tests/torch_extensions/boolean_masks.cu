// extension: headers=light
// call: forward(float32[30], bool[30], 0.5)
// call: count(bool[4, 9])
// raises: forward(float32[30], float32[30], 0.5)
// bool tensors in and out of kernels.
#include <torch/extension.h>

__global__ void dropout_kernel(const float* x, const bool* keep, float* y, bool* positive, float scale, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = keep[i] ? x[i] * scale : 0.0f;
        positive[i] = y[i] > 0.0f;
    }
}

std::vector<torch::Tensor> dropout(torch::Tensor x, torch::Tensor keep, double p) {
    TORCH_CHECK(p >= 0 && p < 1, "p must be in [0, 1)");
    auto y = torch::empty_like(x);
    auto positive = torch::empty_like(keep);
    dropout_kernel<<<1, 64>>>(x.data_ptr<float>(), keep.data_ptr<bool>(), y.data_ptr<float>(), positive.data_ptr<bool>(), 1.0 / (1.0 - p), x.numel());
    return {y, positive};
}

int64_t count(torch::Tensor mask) { return mask.sum().item<int64_t>() + mask.any().item().toBool() + (mask.logical_not().nonzero().size(0) > 0); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &dropout);
    m.def("count", &count);
}
