// extension: headers=light
// call: forward(float32[7, 5], float32[9, 5])
// call: nearest(float32[7, 5], float32[9, 5])
// raises: forward(float32[7, 5], float32[9, 4])
// Kernel and ATen mixed in one expression, and results broken into parts.
#include <torch/extension.h>

#define BLOCK 8
#define DIVUP(a, b) (((a) + (b) - 1) / (b))

template <typename scalar_t>
__global__ void distance_kernel(const torch::PackedTensorAccessor32<scalar_t, 2> a, const torch::PackedTensorAccessor32<scalar_t, 2> b,
                                torch::PackedTensorAccessor32<scalar_t, 2> out) {
    const int i = blockIdx.y * BLOCK + threadIdx.y, j = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= out.size(0) || j >= out.size(1)) return;
    scalar_t sum = 0;
    for (int k = 0; k < a.size(1); ++k) {
        const scalar_t difference = a[i][k] - b[j][k];
        sum += difference * difference;
    }
    out[i][j] = sum;
}

at::Tensor forward(at::Tensor a, at::Tensor b) {
    TORCH_CHECK(a.size(1) == b.size(1), "dimensions differ: ", a.size(1), " != ", b.size(1));
    auto out = at::empty({a.size(0), b.size(0)}, a.options());
    const dim3 block(BLOCK, BLOCK);
    const dim3 grid(DIVUP(b.size(0), BLOCK), DIVUP(a.size(0), BLOCK));
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "distance", [&] {
        distance_kernel<scalar_t><<<grid, block>>>(a.packed_accessor32<scalar_t, 2>(), b.packed_accessor32<scalar_t, 2>(), out.packed_accessor32<scalar_t, 2>());
    });
    return out.sqrt();
}

std::tuple<at::Tensor, at::Tensor> nearest(at::Tensor a, at::Tensor b) {
    const auto distances = forward(a, b);
    return distances.min(/*dim=*/1);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "euclidean distances");
    m.def("nearest", &nearest, "distance and index of the nearest");
}
