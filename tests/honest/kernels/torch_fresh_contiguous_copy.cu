// problem: matmul
// why: computes the transposed product in a tensor of its own and returns a fresh contiguous copy of its transpose
#include <torch/extension.h>

__global__ void transposed(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    float sum = 0.0f;
    for (int64_t i = 0; i < k; ++i) sum += a[at % m * k + i] * b[i * n + at / m];
    c[at] = sum;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
    auto turned = torch::empty({n, m}, a.options());
    const auto blocks = static_cast<unsigned>((m * n + 127) / 128);
    transposed<<<blocks, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), turned.data_ptr<float>(), m, n, k);
    return turned.t().contiguous();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
