// problem: twice
// why: keeps its output tensor from call to call and returns the same one, written anew, as frameworks with static buffers do
#include <torch/extension.h>

__global__ void twice(const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}

torch::Tensor forward(torch::Tensor x) {
    static torch::Tensor kept;
    if (!kept.defined() || kept.sizes() != x.sizes()) kept = torch::empty_like(x);
    const int64_t n = x.numel();
    if (n > 0) twice<<<static_cast<unsigned>((n + 31) / 32), 32>>>(x.data_ptr<float>(), kept.data_ptr<float>(), n);
    return kept;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
