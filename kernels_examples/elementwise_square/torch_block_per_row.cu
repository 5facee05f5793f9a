// expect: ACCEPTED
// A block takes a row and strides along it, so that any width does; a row that begins at a multiple of sixteen bytes goes four at a time.
#include <torch/extension.h>

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void square_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t cols) {
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    const bool aligned = reinterpret_cast<uintptr_t>(in) % 16 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
    const int64_t vectors = aligned ? cols / 4 : 0;
    for (int64_t j = threadIdx.x; j < vectors; j += blockDim.x) {
        const float4 four = reinterpret_cast<const float4*>(in)[j];
        reinterpret_cast<float4*>(out)[j] = make_float4(four.x * four.x, four.y * four.y, four.z * four.z, four.w * four.w);
    }
    for (int64_t j = 4 * vectors + threadIdx.x; j < cols; j += blockDim.x) out[j] = in[j] * in[j];
}

torch::Tensor forward(torch::Tensor x) {
    TORCH_CHECK(x.scalar_type() == torch::kFloat32 && x.dim() == 2, "x must be a float32 matrix");
    x = x.contiguous();
    auto y = torch::empty_like(x);
    square_kernel<<<x.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "x * x");
}
