// extension: headers=light
// call: forward(float32[7, 6], float32[7, 6], 0.25)
// call: forward(float64[5], float64[5], 2)
// raises: forward(float32[8, 7].T, float32[7, 8], 0.5)
// The tutorial's layout: checks and bindings in C++, kernels in a .cu beside them.
#include <torch/extension.h>

#include "lerp.h"

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) do { CHECK_CUDA(x); CHECK_CONTIGUOUS(x); } while (0)

torch::Tensor blend(torch::Tensor a, torch::Tensor b, double weight) {
  CHECK_INPUT(a);
  CHECK_INPUT(b);
  return lerp_cuda(a, b, weight);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &blend, "a + weight * (b - a)");
}
