// twin of: returns_view_of_input
// language: torch_extension
// cases: triad
// expect: ACCEPTED
// Allocates its output and an intermediate result with torch, and returns the output.
#include <torch/extension.h>

#include "work.h"

__global__ void twice(const float* a, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * a[i];
}

__global__ void add(const float* a, const float* b, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    torch::Tensor doubled = torch::empty_like(a), out = torch::empty_like(a);
    const int64_t n = a.numel();
    const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
    twice<<<blocks, 256>>>(a.data_ptr<float>(), doubled.data_ptr<float>(), n);
    add<<<blocks, 256>>>(doubled.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
