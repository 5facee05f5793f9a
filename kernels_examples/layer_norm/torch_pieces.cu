// expect: ACCEPTED
// The same two steps, with torch's memory for what lies between them: taken from its cache, so that nothing is allocated.
#include <torch/extension.h>

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256, WARPS = THREADS / 32, PIECES = 128;

// Mean and summed squared deviations of so many elements: merged pair by pair (Chan), nothing large is ever subtracted from anything large.
struct Moments {
    float count = 0.0f, mean = 0.0f, squares = 0.0f;
};

__device__ __forceinline__ Moments merge(Moments left, Moments right) {
    if (right.count == 0.0f) return left;
    Moments both;
    both.count = left.count + right.count;
    const float delta = right.mean - left.mean, share = right.count / both.count;
    both.mean = left.mean + delta * share;
    both.squares = left.squares + right.squares + delta * delta * left.count * share;
    return both;
}

__device__ __forceinline__ Moments merge_warp(Moments mine) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        Moments other;
        other.count = __shfl_down_sync(0xffffffffu, mine.count, offset);
        other.mean = __shfl_down_sync(0xffffffffu, mine.mean, offset);
        other.squares = __shfl_down_sync(0xffffffffu, mine.squares, offset);
        mine = merge(mine, other);
    }
    return mine;
}

__device__ __forceinline__ int64_t bound(int64_t size, int64_t piece) { return size * piece / PIECES; }

__global__ void __launch_bounds__(THREADS) gather_kernel(const float* __restrict__ x, Moments* __restrict__ moments, int64_t size) {
    __shared__ Moments of_warp[WARPS];
    const float* in = x + blockIdx.x * size;
    Moments mine;
    for (int64_t i = bound(size, blockIdx.y) + threadIdx.x; i < bound(size, blockIdx.y + 1); i += THREADS) {
        Moments one;
        one.count = 1.0f;
        one.mean = in[i];
        mine = merge(mine, one);
    }
    mine = merge_warp(mine);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < WARPS; ++w) mine = merge(mine, of_warp[w]);
    moments[static_cast<int64_t>(blockIdx.x) * PIECES + blockIdx.y] = mine;
}

__global__ void __launch_bounds__(THREADS) apply_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y,
    const Moments* __restrict__ moments, int64_t size) {
    __shared__ Moments whole;
    if (threadIdx.x < 32) {
        Moments mine;
        for (int piece = threadIdx.x; piece < PIECES; piece += 32) {
            mine = merge(mine, moments[static_cast<int64_t>(blockIdx.x) * PIECES + piece]);
        }
        mine = merge_warp(mine);
        if (threadIdx.x == 0) whole = mine;
    }
    __syncthreads();
    const float mean = whole.mean, scale = rsqrtf(whole.squares / whole.count + 1e-5f);
    for (int64_t i = bound(size, blockIdx.y) + threadIdx.x; i < bound(size, blockIdx.y + 1); i += THREADS) {
        y[blockIdx.x * size + i] = (x[blockIdx.x * size + i] - mean) * scale * weight[i] + bias[i];
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    TORCH_CHECK(x.dim() == 4 && weight.numel() * x.size(0) == x.numel(), "weight must have the shape of a sample");
    x = x.contiguous();
    const int64_t batch = x.size(0), size = weight.numel();
    auto y = torch::empty_like(x);
    auto memory = torch::empty({batch, PIECES, 3}, x.options());
    Moments* moments = reinterpret_cast<Moments*>(memory.data_ptr<float>());
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    gather_kernel<<<dim3(batch, PIECES), THREADS, 0, stream>>>(x.data_ptr<float>(), moments, size);
    apply_kernel<<<dim3(batch, PIECES), THREADS, 0, stream>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), moments, size);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "layer normalisation");
}
