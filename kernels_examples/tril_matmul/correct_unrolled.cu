// expect: ACCEPTED
// An unrolled inner loop on uninitialised output is fine, as long as every element is written, the upper zeros too.
#include <torch/extension.h>

#include <cuda_runtime.h>

template <int BLOCK>
__global__ void __launch_bounds__(BLOCK * BLOCK)
tril_matmul_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    const int row = blockIdx.y * BLOCK + threadIdx.y;
    const int col = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= n || col >= n) return;

    float sum = 0.0f;
    if (row >= col) {
        const float* a_row = a + row * n;
        #pragma unroll 8
        for (int k = 0; k < n; ++k) {
            sum += a_row[k] * b[k * n + col];
        }
    }
    c[row * n + col] = sum;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda(), "a must be a CUDA tensor");
    TORCH_CHECK(b.is_cuda(), "b must be a CUDA tensor");
    TORCH_CHECK(a.dim() == 2 && a.sizes() == b.sizes(), "a and b must be matrices of the same shape");
    a = a.contiguous();
    b = b.contiguous();
    const int n = a.size(0);
    auto c = torch::empty_like(a);

    constexpr int BLOCK = 16;
    const int blocks = (n + BLOCK - 1) / BLOCK;
    tril_matmul_kernel<BLOCK><<<dim3(blocks, blocks), dim3(BLOCK, BLOCK)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "lower triangle of a @ b");
}
