// extension: headers=light
// call: forward(float32[2, 5, 3, 8])
// call: forward(float16[1, 4, 2, 4], 500.0)
// Angles computed by torch, pairs rotated by a kernel that takes float and half.
#include <torch/extension.h>
#include <c10/util/Half.h>

template <typename scalar_t>
__global__ void rotary_kernel(scalar_t* x, const float* __restrict__ cos, const float* __restrict__ sin, int positions, int heads, int half) {
    const int position = blockIdx.x % positions;
    scalar_t* vector = x + (size_t)blockIdx.x * heads * half * 2;
    for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
        const int head = i / half, k = i % half;
        scalar_t* pair = vector + head * half * 2 + k;
        const float a = pair[0], b = pair[half], c = cos[position * half + k], s = sin[position * half + k];
        pair[0] = a * c - b * s;
        pair[half] = b * c + a * s;
    }
}

torch::Tensor rotary(torch::Tensor x, double base) {
    const int64_t batch = x.size(0), positions = x.size(1), heads = x.size(2), dim = x.size(3);
    auto options = torch::TensorOptions().dtype(torch::kFloat).device(x.device());
    auto frequencies = torch::pow(base, torch::arange(0, dim, 2, options) / -dim);
    auto angles = torch::outer(torch::arange(positions, options), frequencies);
    auto cos = angles.cos().contiguous(), sin = angles.sin().contiguous();
    auto out = x.clone();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "rotary", [&] {
        rotary_kernel<<<batch * positions, 16>>>(out.data_ptr<scalar_t>(), cos.data_ptr<float>(), sin.data_ptr<float>(), (int)positions, (int)heads, (int)(dim / 2));
    });
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &rotary, "rotary position embedding", py::arg("x"), py::arg("base") = 10000.0);
}
