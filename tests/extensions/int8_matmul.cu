// extension: headers=light
// call: forward(float32[6, 20], float32[20, 7])
// call: quantize(float32[5, 5])
// Quantised by torch, multiplied as int8 with sums in int32, scaled back.
#include <torch/extension.h>
#include <cstdint>

__global__ void int8_matmul_kernel(const int8_t* __restrict__ a, const int8_t* __restrict__ b, int32_t* __restrict__ c, int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    int32_t sum = 0;
    for (int i = 0; i < k; ++i) sum += static_cast<int32_t>(a[row * k + i]) * static_cast<int32_t>(b[i * n + col]);
    c[row * n + col] = sum;
}

std::pair<torch::Tensor, float> quantize(const torch::Tensor& x) {
    const float scale = x.abs().max().item<float>() / 127.0f;
    return {torch::round(x / scale).clamp(-127, 127).to(torch::kInt8), scale};
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    auto [qa, scale_a] = quantize(a);
    auto [qb, scale_b] = quantize(b);
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options().dtype(torch::kInt32));
    const dim3 block(8, 8), grid((n + 7) / 8, (m + 7) / 8);
    int8_matmul_kernel<<<grid, block>>>(qa.data_ptr<int8_t>(), qb.data_ptr<int8_t>(), c.data_ptr<int32_t>(), m, n, k);
    return c.to(torch::kFloat32) * (scale_a * scale_b);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("quantize", &quantize);
}
