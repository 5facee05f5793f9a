// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// The launch is 1-D while the kernel's index is 2-D: only row 0 is written, and the rest of the fresh output holds what lay there before.
#include <torch/extension.h>

#include <cuda_runtime.h>

__global__ void tril_matmul_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, const int N) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;

    if (row < N && col < N) {
        if (row >= col) {
            float sum = 0.0f;
            #pragma unroll
            for (int k = 0; k < N; k++) {
                sum += A[row * N + k] * B[k * N + col];
            }
            C[row * N + col] = sum;
        } else {
            C[row * N + col] = 0.0f;
        }
    }
}

torch::Tensor forward(torch::Tensor A, torch::Tensor B) {
    TORCH_CHECK(A.is_cuda(), "A must be a CUDA tensor");
    TORCH_CHECK(B.is_cuda(), "B must be a CUDA tensor");

    const int N = A.size(0);
    auto C = torch::empty_like(A);

    const int threads_per_block = 256;
    const int num_blocks = N;
    tril_matmul_kernel<<<num_blocks, threads_per_block>>>(A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), N);
    return C;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "Lower triangular matrix multiplication (CUDA)");
}
