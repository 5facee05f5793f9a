// expect: ACCEPTED
// A row is split among sixteen blocks, so that a few wide rows keep a whole GPU busy; a second kernel merges the sixteen and divides.
#include <torch/extension.h>

#include <c10/cuda/CUDAStream.h>
#include <cmath>
#include <cuda_runtime.h>

constexpr int THREADS = 256, PARTS = 16;

__device__ float2 merge(float2 left, float2 right) {  // x: the maximum, y: the sum relative to it
    const float top = fmaxf(left.x, right.x);
    if (top == -INFINITY) return left;
    return make_float2(top, left.y * expf(left.x - top) + right.y * expf(right.x - top));
}

__global__ void __launch_bounds__(THREADS) gather_kernel(const float* __restrict__ x, float2* __restrict__ partials, int64_t cols) {
    __shared__ float2 of_warp[THREADS / 32];
    const float* in = x + blockIdx.x * cols;
    const int64_t length = (cols + PARTS - 1) / PARTS, begin = blockIdx.y * length;
    const int64_t end = begin + length < cols ? begin + length : cols;

    float2 mine = make_float2(-INFINITY, 0.0f);
    for (int64_t j = begin + threadIdx.x; j < end; j += THREADS) mine = merge(mine, make_float2(in[j], 1.0f));
    for (int offset = 16; offset > 0; offset /= 2) {
        const float top = __shfl_xor_sync(0xffffffffu, mine.x, offset), sum = __shfl_xor_sync(0xffffffffu, mine.y, offset);
        mine = merge(mine, make_float2(top, sum));
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < THREADS / 32; ++w) mine = merge(mine, of_warp[w]);
    partials[static_cast<int64_t>(blockIdx.x) * PARTS + blockIdx.y] = mine;
}

__global__ void __launch_bounds__(THREADS)
divide_kernel(const float* __restrict__ x, const float2* __restrict__ partials, float* __restrict__ y, int64_t cols) {
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    const int64_t length = (cols + PARTS - 1) / PARTS, begin = blockIdx.y * length;
    const int64_t end = begin + length < cols ? begin + length : cols;

    float2 row = partials[static_cast<int64_t>(blockIdx.x) * PARTS];
    for (int part = 1; part < PARTS; ++part) row = merge(row, partials[static_cast<int64_t>(blockIdx.x) * PARTS + part]);
    for (int64_t j = begin + threadIdx.x; j < end; j += THREADS) out[j] = expf(in[j] - row.x) / row.y;
}

torch::Tensor forward(torch::Tensor x) {
    TORCH_CHECK(x.scalar_type() == torch::kFloat32 && x.dim() == 2, "x must be a float32 matrix");
    x = x.contiguous();
    const int64_t rows = x.size(0), cols = x.size(1);
    auto y = torch::empty_like(x);
    auto partials = torch::empty({rows, PARTS, 2}, x.options());
    float2* memory = reinterpret_cast<float2*>(partials.data_ptr<float>());
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    gather_kernel<<<dim3(rows, PARTS), THREADS, 0, stream>>>(x.data_ptr<float>(), memory, cols);
    divide_kernel<<<dim3(rows, PARTS), THREADS, 0, stream>>>(x.data_ptr<float>(), memory, y.data_ptr<float>(), cols);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "softmax of every row");
}
