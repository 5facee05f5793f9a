// problem: twice
// why: writes into a tensor that it is given, as many a repository's extensions do: their functions return nothing
#include <torch/extension.h>

__global__ void twice(const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}

void twice_f32(torch::Tensor x, torch::Tensor out) {
    const int64_t n = x.numel();
    if (n > 0) twice<<<static_cast<unsigned>((n + 31) / 32), 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &twice_f32, "twice x, into out"); }
