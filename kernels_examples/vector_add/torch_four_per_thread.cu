// expect: ACCEPTED
// Four neighbouring elements per thread, the bound checked for each; the only function of the module is its entry, whatever its name.
#include <torch/extension.h>

#include <cuda_runtime.h>

constexpr int PER_THREAD = 4;

__global__ void add_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t n) {
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * PER_THREAD;
    #pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
        if (first + j < n) {
            c[first + j] = __ldg(a + first + j) + __ldg(b + first + j);
        }
    }
}

at::Tensor vector_add(const at::Tensor& a, const at::Tensor& b) {
    auto c = at::empty(a.sizes(), a.options());
    const int64_t n = a.numel();
    const int64_t per_block = 128 * PER_THREAD;
    add_kernel<<<(n + per_block - 1) / per_block, 128>>>(
        a.const_data_ptr<float>(), b.const_data_ptr<float>(), c.mutable_data_ptr<float>(), n);
    const cudaError_t error = cudaGetLastError();
    TORCH_CHECK(error == cudaSuccess, "launch failed: ", cudaGetErrorString(error));
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("vector_add", &vector_add, "a + b");
}
