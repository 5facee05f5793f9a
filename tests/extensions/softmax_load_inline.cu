// extension: headers=light
// call: softmax_cuda(float32[6, 90])
// call: softmax_cuda(float32[1, 3])
// What load_inline makes of a declaration, a CUDA source and a list of functions.
#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <torch/extension.h>

torch::Tensor softmax_cuda(torch::Tensor x);

__global__ void softmax_kernel(const float* x, float* out, const int cols) {
    extern __shared__ float scratch[];
    const float* row = x + blockIdx.x * cols;
    float* result = out + blockIdx.x * cols;
    const int tid = threadIdx.x;

    float top = -INFINITY;
    for (int i = tid; i < cols; i += blockDim.x) top = fmaxf(top, row[i]);
    scratch[tid] = top;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) scratch[tid] = fmaxf(scratch[tid], scratch[tid + s]);
        __syncthreads();
    }
    top = scratch[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        result[i] = __expf(row[i] - top);
        sum += result[i];
    }
    scratch[tid] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) scratch[tid] += scratch[tid + s];
        __syncthreads();
    }
    for (int i = tid; i < cols; i += blockDim.x) result[i] = __fdividef(result[i], scratch[0]);
}

torch::Tensor softmax_cuda(torch::Tensor x) {
    auto sizes = x.sizes();
    auto out = torch::empty_like(x);
    const int block_size = 64;
    softmax_kernel<<<sizes[0], block_size, block_size * sizeof(float)>>>(x.data_ptr<float>(), out.data_ptr<float>(), sizes[1]);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
m.def("softmax_cuda", torch::wrap_pybind_function(softmax_cuda), "softmax_cuda");
}
