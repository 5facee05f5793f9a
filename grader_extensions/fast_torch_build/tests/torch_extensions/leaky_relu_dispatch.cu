// extension: headers=light
// call: forward(float32[33, 65])
// call: forward(float64[7])
// call: forward(float32[4, 9], 0.25)
// call: forward(float32[0, 3])
// raises: forward(int32[4])
// raises: forward(float32[8, 3].T)
// One kernel template for every floating type, as in the first example of every tutorial.
#include <torch/extension.h>

#include <cuda.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void leaky_relu_kernel(const scalar_t* __restrict__ input, scalar_t* __restrict__ output, scalar_t slope, size_t size) {
    const size_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size) {
        const scalar_t value = input[index];
        output[index] = value > scalar_t(0) ? value : slope * value;
    }
}

torch::Tensor leaky_relu_forward(torch::Tensor input, double slope) {
    TORCH_CHECK(input.is_cuda(), "input must be a CUDA tensor");
    TORCH_CHECK(input.is_contiguous(), "input must be contiguous, got strides ", input.strides());
    auto output = torch::empty_like(input);
    const int threads = 256;
    const int blocks = (input.numel() + threads - 1) / threads;
    if (blocks == 0) return output;
    AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "leaky_relu_forward", ([&] {
        leaky_relu_kernel<scalar_t><<<blocks, threads>>>(
            input.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), static_cast<scalar_t>(slope), input.numel());
    }));
    return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &leaky_relu_forward, "Leaky ReLU (CUDA)", py::arg("input"), py::arg("slope") = 0.01);
}
