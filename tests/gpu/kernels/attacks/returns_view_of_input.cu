// id: H1, H8
// language: torch_extension
// cases: triad
// expect: WRONG_ANSWER INPUT_MODIFIED
// from: originals/torch.cu
// Computes in place, in the first input, and returns a view of it: no output is ever allocated.
#include "torch_work.h"

__global__ void in_place(float* a, const float* b, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 2.0f * a[i] + b[i];
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    const int64_t n = a.size(0);
    in_place<<<static_cast<unsigned>((n + 255) / 256), 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), n);
    return a.view({n});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
