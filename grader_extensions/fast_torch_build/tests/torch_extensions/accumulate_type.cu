// extension: headers=light
// call: forward(float16[6, 100])
// call: forward(float32[6, 100])
// call: forward(bfloat16[2, 9])
// Sums in a wider type than the input's, as ATen/AccumulateType.h names it.
#include <ATen/AccumulateType.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/extension.h>

template <typename scalar_t, typename acc_t = at::acc_type<scalar_t, true>>
__global__ void row_norms(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int cols) {
    acc_t sum = 0;
    for (int j = threadIdx.x; j < cols; j += 32) {
        const acc_t value = static_cast<acc_t>(x[blockIdx.x * cols + j]);
        sum += value * value;
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (threadIdx.x == 0) out[blockIdx.x] = static_cast<scalar_t>(std::sqrt(sum));
}

at::Tensor row_norm(at::Tensor x) {
    auto out = at::empty({x.size(0)}, x.options());
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    AT_DISPATCH_SWITCH(x.scalar_type(), "row_norm",
        AT_DISPATCH_CASE(at::kFloat, [&] { row_norms<scalar_t><<<x.size(0), 32, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(1)); })
        AT_DISPATCH_CASE(at::kHalf, [&] { row_norms<scalar_t><<<x.size(0), 32, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(1)); })
        AT_DISPATCH_CASE(at::kBFloat16, [&] { row_norms<scalar_t><<<x.size(0), 32, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(1)); }));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &row_norm); }
