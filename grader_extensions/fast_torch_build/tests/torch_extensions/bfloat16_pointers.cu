// extension: headers=light
// call: forward(bfloat16[50], bfloat16[50])
// call: rounded(float32[20])
// bfloat16 by pointer casts, by void pointers, and by values of at::BFloat16 on the host.
#include <cuda_bf16.h>
#include <torch/extension.h>

__global__ void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = __float2bfloat16(__bfloat162float(a[i]) * __bfloat162float(b[i]));
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    multiply<<<2, 32>>>(reinterpret_cast<__nv_bfloat16*>(a.data_ptr<at::BFloat16>()), (const __nv_bfloat16*)b.data_ptr(),
                        reinterpret_cast<__nv_bfloat16*>(c.data_ptr<torch::BFloat16>()), a.numel());
    return c;
}

torch::Tensor rounded(torch::Tensor x) {
    auto out = torch::empty({x.numel()}, torch::kBFloat16);
    const float* in = x.data_ptr<float>();
    at::BFloat16* values = out.data_ptr<at::BFloat16>();
    for (int64_t i = 0; i < x.numel(); ++i) values[i] = static_cast<at::BFloat16>(in[i]) * c10::BFloat16(2.0f);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("rounded", &rounded);
}
