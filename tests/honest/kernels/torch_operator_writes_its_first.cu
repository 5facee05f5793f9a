// problem: scale_add
// why: the operator returns nothing; its schema says which tensor it writes to, and the number that comes first is its last argument
#include <torch/library.h>

__global__ void scale_add(float* out, const float* x, const float* y, int64_t n, float alpha) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

void scale_add_f32(at::Tensor& result, const at::Tensor& x, const at::Tensor& y, double factor) {
    const int64_t n = result.numel();
    if (n == 0) return;
    const auto blocks = static_cast<unsigned>((n + 31) / 32);
    scale_add<<<blocks, 32>>>(result.data_ptr<float>(), x.data_ptr<float>(), y.data_ptr<float>(), n, static_cast<float>(factor));
}

TORCH_LIBRARY(ours, m) { m.def("scale_add(Tensor! result, Tensor x, Tensor y, float factor) -> ()"); }
TORCH_LIBRARY_IMPL(ours, CUDA, m) { m.impl("scale_add", &scale_add_f32); }
