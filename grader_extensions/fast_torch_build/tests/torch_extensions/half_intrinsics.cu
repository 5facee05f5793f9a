// extension: headers=light
// call: forward(float16[64], float16[64])
// call: to_half(float32[33])
// raises: forward(float32[4], float32[4])
// CUDA's own half type over tensors of c10::Half, two values at a time.
#include <cuda_fp16.h>
#include <torch/extension.h>

__global__ void add_half2(const __half2* a, const __half2* b, __half2* c, int pairs) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) c[i] = __hadd2(a[i], b[i]);
}

__global__ void narrow(const float* x, __half* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2half(x[i] * 0.5f);
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.scalar_type() == torch::kHalf && b.scalar_type() == torch::kFloat16, "expected half tensors");
    TORCH_CHECK(a.numel() % 2 == 0);
    auto c = torch::empty_like(a);
    const int pairs = a.numel() / 2;
    add_half2<<<(pairs + 15) / 16, 16>>>(reinterpret_cast<const __half2*>(a.data_ptr<at::Half>()),
                                         reinterpret_cast<const __half2*>(b.data_ptr<c10::Half>()),
                                         reinterpret_cast<__half2*>(c.data_ptr<at::Half>()), pairs);
    return c;
}

torch::Tensor to_half(torch::Tensor x) {
    auto y = torch::empty(x.sizes(), x.options().dtype(torch::kHalf));
    narrow<<<2, 32>>>(x.data_ptr<float>(), static_cast<__half*>(y.data_ptr()), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &add, "a + b in half precision");
    m.def("to_half", &to_half);
}
