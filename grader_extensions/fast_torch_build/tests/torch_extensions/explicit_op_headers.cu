// extension: headers=light
// call: forward(float32[5, 6])
// call: forward(bool[8])
// Includes of single operators, as torch's own sources have them.
#include <ATen/core/Tensor.h>
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <torch/extension.h>

template <typename T>
__global__ void square(const T* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = static_cast<float>(x[i]) * static_cast<float>(x[i]);
}

at::Tensor sum_of_squares(const at::Tensor& x) {
    TORCH_INTERNAL_ASSERT(x.defined());
    at::Tensor y = at::empty_like(x, x.options().dtype(at::kFloat));
    AT_DISPATCH_ALL_TYPES_AND(at::ScalarType::Bool, x.scalar_type(), "square", [&] {
        square<scalar_t><<<4, 16>>>(x.const_data_ptr<scalar_t>(), y.mutable_data_ptr<float>(), x.numel());
    });
    return at::sum(y) + at::zeros_like(y).sum();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &sum_of_squares);
}
