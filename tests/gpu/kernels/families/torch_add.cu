// c = a + b as an extension of torch, its output from torch's allocator.
#include <torch/extension.h>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    const int64_t n = a.numel();
    add<<<static_cast<unsigned>((n + 255) / 256), 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "a + b");
}
