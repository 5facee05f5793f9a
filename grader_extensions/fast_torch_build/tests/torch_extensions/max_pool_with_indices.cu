// extension: headers=light
// call: forward(float32[2, 3, 8, 8], 2, 2)
// call: forward(float64[1, 1, 5, 7], 3, 1)
// Two outputs of two dtypes, as a pair; 64-bit packed accessors.
#include <torch/extension.h>
#include <limits>
#include <utility>

template <typename scalar_t>
__global__ void max_pool_kernel(const at::PackedTensorAccessor64<scalar_t, 4> x, at::PackedTensorAccessor64<scalar_t, 4> y,
                                at::PackedTensorAccessor64<int64_t, 4> where, int kernel, int stride) {
    const int64_t ow = blockIdx.x * blockDim.x + threadIdx.x, oh = blockIdx.y * blockDim.y + threadIdx.y;
    const int64_t n = blockIdx.z / x.size(1), c = blockIdx.z % x.size(1);
    if (oh >= y.size(2) || ow >= y.size(3)) return;
    scalar_t best = -std::numeric_limits<scalar_t>::infinity();
    int64_t at = -1;
    for (int i = 0; i < kernel; ++i) {
        for (int j = 0; j < kernel; ++j) {
            const int64_t h = oh * stride + i, w = ow * stride + j;
            if (x[n][c][h][w] > best) {
                best = x[n][c][h][w];
                at = h * x.size(3) + w;
            }
        }
    }
    y[n][c][oh][ow] = best;
    where[n][c][oh][ow] = at;
}

std::pair<torch::Tensor, torch::Tensor> max_pool(torch::Tensor x, int64_t kernel, int64_t stride) {
    const int64_t out_h = (x.size(2) - kernel) / stride + 1, out_w = (x.size(3) - kernel) / stride + 1;
    auto y = torch::empty({x.size(0), x.size(1), out_h, out_w}, x.options());
    auto where = torch::empty(y.sizes(), x.options().dtype(torch::kLong));
    const dim3 block(8, 8), grid((out_w + 7) / 8, (out_h + 7) / 8, x.size(0) * x.size(1));
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "max_pool", [&] {
        max_pool_kernel<scalar_t><<<grid, block>>>(x.packed_accessor64<scalar_t, 4>(), y.packed_accessor64<scalar_t, 4>(),
                                                   where.packed_accessor64<int64_t, 4>(), kernel, stride);
    });
    return {y, where};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &max_pool); }
