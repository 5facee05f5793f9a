// expect: ACCEPTED
// The same tree of additions with cooperative groups, whose names say who takes part in a barrier.
#include <torch/extension.h>

#include <cmath>
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

constexpr int THREADS = 128;

template <typename Combine>
__device__ float reduce(const cg::thread_block& block, float* scratch, float value, Combine combine) {
    const int rank = block.thread_rank();
    scratch[rank] = value;
    block.sync();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (rank < half) scratch[rank] = combine(scratch[rank], scratch[rank + half]);
        block.sync();
    }
    const float result = scratch[0];
    block.sync();
    return result;
}

__global__ void softmax_kernel(const float* x, float* y, int64_t cols) {
    __shared__ float scratch[THREADS];
    const cg::thread_block block = cg::this_thread_block();
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    float top = -INFINITY;
    for (int64_t j = block.thread_rank(); j < cols; j += block.size()) top = fmaxf(top, in[j]);
    top = reduce(block, scratch, top, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0.0f;
    for (int64_t j = block.thread_rank(); j < cols; j += block.size()) sum += expf(in[j] - top);
    sum = reduce(block, scratch, sum, [](float a, float b) { return a + b; });

    for (int64_t j = block.thread_rank(); j < cols; j += block.size()) out[j] = expf(in[j] - top) / sum;
}

torch::Tensor forward(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const int rows = x.size(0);
    const int64_t cols = x.size(1);
    softmax_kernel<<<rows, THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "softmax of every row");
}
