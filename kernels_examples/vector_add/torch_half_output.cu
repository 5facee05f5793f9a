// expect: WRONG_ANSWER WRONG_DTYPE
// A float16 result moves half the bytes, and is not what was asked for.
#include <torch/extension.h>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void add_kernel(const float* a, const float* b, __half* c, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = __float2half(a[i] + b[i]);
    }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty(a.sizes(), a.options().dtype(torch::kFloat16));
    const int64_t n = a.numel();
    add_kernel<<<(n + 255) / 256, 256>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), reinterpret_cast<__half*>(c.data_ptr<at::Half>()), n);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "a + b");
}
