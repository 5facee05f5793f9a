// extension: headers=light
// call: forward(float32[6, 4], float32[6, 4])
// raises: forward(float32[6, 4], float32[4, 6])
// raises: forward(float32[6, 4], float64[6, 4])
// raises: forward(int32[6, 4], int32[6, 4])
// The words of older tutorials: AT_ASSERTM, AT_ERROR, at::Tensor.
#include <torch/extension.h>

#include <vector>

#define CHECK_CUDA(x) AT_ASSERTM(x.type().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) AT_ASSERTM(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

__global__ void hadamard(const float* a, const float* b, float* c, int n) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < n)
    c[index] = a[index] * b[index];
}

at::Tensor hadamard_forward(at::Tensor a, at::Tensor b) {
  CHECK_INPUT(a);
  CHECK_INPUT(b);
  AT_ASSERTM(a.sizes() == b.sizes(), "sizes differ: ", a.sizes(), " and ", b.sizes());
  if (a.scalar_type() != b.scalar_type()) {
    AT_ERROR("types differ: ", toString(a.scalar_type()), " and ", toString(b.scalar_type()));
  }
  TORCH_CHECK_TYPE(at::isFloatingType(a.scalar_type()), "floating types only");
  at::Tensor c = at::empty_like(a);
  hadamard<<<(a.numel() + 15) / 16, 16>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), a.numel());
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &hadamard_forward, "Hadamard product (CUDA)");
}
