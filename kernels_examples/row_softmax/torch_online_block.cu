// expect: ACCEPTED
// Online softmax by a whole block: each thread keeps its own maximum and sum, and pairs are merged by shuffles, then through shared memory.
#include <torch/extension.h>

#include <cmath>
#include <cuda_runtime.h>

struct Partial {
    float top;
    float sum;
};

__device__ __forceinline__ Partial merge(Partial left, Partial right) {
    const float top = fmaxf(left.top, right.top);
    if (top == -INFINITY) return {top, 0.0f};
    return {top, left.sum * expf(left.top - top) + right.sum * expf(right.top - top)};
}

__device__ __forceinline__ Partial merge_warp(Partial mine) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        const Partial other = {__shfl_xor_sync(0xffffffffu, mine.top, offset), __shfl_xor_sync(0xffffffffu, mine.sum, offset)};
        mine = merge(mine, other);
    }
    return mine;
}

template <int THREADS>
__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ Partial of_warp[THREADS / 32];
    const float* in = x + static_cast<int64_t>(blockIdx.x) * cols;
    float* out = y + static_cast<int64_t>(blockIdx.x) * cols;

    Partial mine = {-INFINITY, 0.0f};
    for (int j = threadIdx.x; j < cols; j += THREADS) mine = merge(mine, {in[j], 1.0f});
    mine = merge_warp(mine);

    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    Partial row = of_warp[0];
    for (int w = 1; w < THREADS / 32; ++w) row = merge(row, of_warp[w]);

    for (int j = threadIdx.x; j < cols; j += THREADS) out[j] = expf(in[j] - row.top) / row.sum;
}

torch::Tensor forward(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
    x = x.contiguous();
    auto y = torch::empty_like(x);
    softmax_kernel<128><<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "softmax of every row");
}
