// extension: headers=light
// call: forward(bfloat16[257])
// call: forward(float16[3, 50])
// call: forward(float32[64])
// Two more types than the usual dispatch, and the type to compute in from at::opmath_type.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <torch/extension.h>

template <typename scalar_t>
__global__ void swish_kernel(const scalar_t* __restrict__ in, scalar_t* __restrict__ out, const int n) {
    using opmath_t = at::opmath_type<scalar_t>;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const opmath_t x = static_cast<opmath_t>(in[i]);
    out[i] = static_cast<scalar_t>(x / (opmath_t(1) + exp(-x)));
}

torch::Tensor forward(torch::Tensor x) {
    auto x_ = x.contiguous();
    auto out = torch::empty(x_.sizes(), x_.options());
    const int n = static_cast<int>(x_.numel());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x_.scalar_type(), "swish", [&]() {
        swish_kernel<scalar_t><<<(n + 127) / 128, 128>>>(x_.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
    });
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
