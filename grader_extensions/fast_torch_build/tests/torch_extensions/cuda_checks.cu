// extension: headers=light
// call: forward(float32[100])
// raises: bad_launch(float32[4])
// raises: own_macro(float32[4])
// CUDA's error codes through torch's macros and through one's own; a launch that can't be is an exception.
#include <torch/extension.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAException.h>
#include <stdexcept>
#include <string>

#define CUDA_OK(call)                                                                                       \
    do {                                                                                                    \
        cudaError_t status_ = (call);                                                                       \
        if (status_ != cudaSuccess) {                                                                       \
            throw std::runtime_error(std::string("CUDA error: ") + cudaGetErrorString(status_));            \
        }                                                                                                   \
    } while (0)

__constant__ float table[4];

__global__ void apply(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * table[i % 4];
}

torch::Tensor forward(torch::Tensor x) {
    const float host[4] = {1.0f, -1.0f, 0.5f, 2.0f};
    C10_CUDA_CHECK(cudaMemcpyToSymbol(table, host, sizeof(host)));
    auto y = torch::empty_like(x);
    CUDA_OK(cudaMemsetAsync(y.data_ptr(), 0, y.numel() * y.element_size()));
    apply<<<(x.numel() + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    AT_CUDA_CHECK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    return y;
}

torch::Tensor bad_launch(torch::Tensor x) {
    apply<<<1, 4096>>>(x.data_ptr<float>(), x.data_ptr<float>(), x.numel());
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "the launch failed");
    return x;
}

torch::Tensor own_macro(torch::Tensor x) {
    apply<<<0, 1>>>(x.data_ptr<float>(), x.data_ptr<float>(), x.numel());
    CUDA_OK(cudaGetLastError());
    return x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("bad_launch", &bad_launch);
    m.def("own_macro", &own_macro);
}
