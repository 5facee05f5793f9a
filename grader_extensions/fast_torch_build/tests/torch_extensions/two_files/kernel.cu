#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include "lerp.h"

namespace {

template <typename scalar_t>
__global__ void lerp_kernel(const scalar_t* a, const scalar_t* b, scalar_t* out, scalar_t weight, int64_t n) {
  const int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + weight * (b[i] - a[i]);
}

} // namespace

torch::Tensor lerp_cuda(const torch::Tensor& a, const torch::Tensor& b, double weight) {
  auto out = at::empty_like(a);
  const int threads = 32;
  const dim3 blocks((a.numel() + threads - 1) / threads);
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "lerp_cuda", ([&] {
    lerp_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), static_cast<scalar_t>(weight), a.numel());
  }));
  return out;
}
