# expect: ACCEPTED
# CUDA C++ inside of Python: a block per row, reduced by shuffles and shared memory.
import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cfloat>

constexpr int THREADS = 128;

template <class Combine>
__device__ float reduced(float value, float* shared, Combine combine) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffff, value, offset));
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = shared[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) {
        value = combine(value, shared[warp]);
    }
    return value;
}

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float shared[THREADS / 32];
    const float* in = x + (long)blockIdx.x * cols;
    float* out = y + (long)blockIdx.x * cols;
    float most = -FLT_MAX;
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        most = fmaxf(most, in[i]);
    }
    most = reduced(most, shared, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        sum += expf(in[i] - most);
    }
    sum = reduced(sum, shared, [](float a, float b) { return a + b; });
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        out[i] = expf(in[i] - most) / sum;
    }
}

torch::Tensor row_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    softmax<<<x.size(0), THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

module = load_inline("row_softmax", "torch::Tensor row_softmax(torch::Tensor x);", CUDA, functions=["row_softmax"])


def solution(x):
    return module.row_softmax(x)
