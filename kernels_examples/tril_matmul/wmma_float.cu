// expect: COMPILE_ERROR
// Tensor cores take no plain float operands: wmma has fragments of half, bfloat16, tf32, double and int8, and the compiler says so.
#include <torch/extension.h>

#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

__global__ void tril_matmul_kernel(const float* a, const float* b, float* c, int n) {
    const int row = blockIdx.y * 16;
    const int col = blockIdx.x * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, float, wmma::row_major> a_fragment;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, float, wmma::row_major> b_fragment;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);

    if (row >= col) {
        for (int k = 0; k < n; k += 16) {
            wmma::load_matrix_sync(a_fragment, a + row * n + k, n);
            wmma::load_matrix_sync(b_fragment, b + k * n + col, n);
            wmma::mma_sync(sum, a_fragment, b_fragment, sum);
        }
    }
    wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    const int n = a.size(0);
    auto c = torch::zeros_like(a);
    const dim3 grid((n + 15) / 16, (n + 15) / 16);
    tril_matmul_kernel<<<grid, 32>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "lower triangle of a @ b on tensor cores");
}
