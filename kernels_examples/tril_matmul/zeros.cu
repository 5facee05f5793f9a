// expect: WRONG_ANSWER MISMATCH
// Zeros are half of the right answer and a thousand times faster than all of it.
#include <torch/extension.h>

#include <cuda_runtime.h>

__global__ void tril_matmul_kernel(float* c, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        c[i] = 0.0f;
    }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    const int count = c.numel();
    tril_matmul_kernel<<<(count + 255) / 256, 256>>>(c.data_ptr<float>(), count);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "lower triangle of a @ b");
}
