// extension: headers=light
// call: forward(float32[5, 77])
// call: forward(float16[130])
// call: forward(float64[3, 3])
// GELU over float, double and half; the arithmetic is float.
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cmath>

template <typename T>
__global__ void gelu_kernel(const T* x, T* y, int64_t n) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        const float v = static_cast<float>(x[i]);
        const float cube = 0.044715f * v * v * v;
        y[i] = static_cast<T>(0.5f * v * (1.0f + tanhf(0.7978845608f * (v + cube))));
    }
}

at::Tensor gelu(const at::Tensor& x) {
    auto y = at::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "gelu", [&] {
        gelu_kernel<scalar_t><<<4, 128>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel());
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &gelu, "gelu");
}
