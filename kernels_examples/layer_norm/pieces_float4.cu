// expect: ACCEPTED
// A block per sample would be sixteen blocks: samples are cut into pieces, whose moments the first kernel takes and the second merges.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int PIECES = 256;               // of a sample at most: the second kernel merges one per thread
constexpr int64_t LEAST = 8 * THREADS;    // elements of a piece, a multiple of 4

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

// The whole block's moments, for each of its threads.
__device__ Moments merge_block(Moments mine) {
    __shared__ Moments of_warp[WARPS], whole;
    mine = merge_warp(mine);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) mine = merge_warp(threadIdx.x < WARPS ? of_warp[threadIdx.x] : Moments());
    if (threadIdx.x == 0) whole = mine;
    __syncthreads();
    return whole;
}

__global__ void __launch_bounds__(THREADS)
gather(const float* __restrict__ x, Moments* __restrict__ moments, int64_t size, int64_t piece, bool vectors) {
    const float* in = x + blockIdx.x * size;
    const int64_t begin = blockIdx.y * piece, end = begin + piece < size ? begin + piece : size;
    Moments mine;
    for (int64_t i = begin + 4 * threadIdx.x; vectors && i < end; i += 4 * THREADS) {
        const float4 v = *reinterpret_cast<const float4*>(in + i);
        Moments four;
        four.count = 4.0f;
        four.mean = (v.x + v.y + v.z + v.w) * 0.25f;
        const float a = v.x - four.mean, b = v.y - four.mean, c = v.z - four.mean, d = v.w - four.mean;
        four.squares = a * a + b * b + c * c + d * d;
        mine = merge(mine, four);
    }
    for (int64_t i = begin + threadIdx.x; !vectors && i < end; i += THREADS) {
        Moments one;
        one.count = 1.0f;
        one.mean = in[i];
        mine = merge(mine, one);
    }
    mine = merge_block(mine);
    if (threadIdx.x == 0) moments[static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y] = mine;
}

__global__ void __launch_bounds__(THREADS) apply(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y,
    const Moments* __restrict__ moments, int64_t size, int64_t piece, bool vectors) {
    const Moments whole = merge_block(
        threadIdx.x < gridDim.y ? moments[static_cast<int64_t>(blockIdx.x) * gridDim.y + threadIdx.x] : Moments());
    const float mean = whole.mean, scale = rsqrtf(whole.squares / whole.count + 1e-5f);
    const float* in = x + blockIdx.x * size;
    float* out = y + blockIdx.x * size;
    const int64_t begin = blockIdx.y * piece, end = begin + piece < size ? begin + piece : size;
    for (int64_t i = begin + 4 * threadIdx.x; vectors && i < end; i += 4 * THREADS) {
        const float4 v = *reinterpret_cast<const float4*>(in + i);
        const float4 w = *reinterpret_cast<const float4*>(weight + i), b = *reinterpret_cast<const float4*>(bias + i);
        *reinterpret_cast<float4*>(out + i) = make_float4(
            (v.x - mean) * scale * w.x + b.x, (v.y - mean) * scale * w.y + b.y,
            (v.z - mean) * scale * w.z + b.z, (v.w - mean) * scale * w.w + b.w);
    }
    for (int64_t i = begin + threadIdx.x; !vectors && i < end; i += THREADS) out[i] = (in[i] - mean) * scale * weight[i] + bias[i];
}

static bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0; }

// Room for that many, kept from call to call; null if there is none.
static Moments* workspace(size_t count) {
    static Moments* memory = nullptr;
    static size_t held = 0;
    if (count > held) {
        cudaFree(memory);
        memory = nullptr;
        held = cudaMalloc(&memory, count * sizeof(Moments)) == cudaSuccess ? count : 0;
    }
    return memory;
}

extern "C" void solve(
    const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t height, int64_t width,
    cudaStream_t stream) {
    const int64_t size = channels * height * width;
    const bool vectors = aligned(x) && aligned(weight) && aligned(bias) && aligned(y) && size % 4 == 0;
    const int64_t even = ((size + PIECES - 1) / PIECES + 3) / 4 * 4, piece = even > LEAST ? even : LEAST;
    const dim3 blocks(batch, (size + piece - 1) / piece);
    Moments* moments = workspace(static_cast<size_t>(blocks.x) * blocks.y);
    if (moments == nullptr) return;
    gather<<<blocks, THREADS, 0, stream>>>(x, moments, size, piece, vectors);
    apply<<<blocks, THREADS, 0, stream>>>(x, weight, bias, y, moments, size, piece, vectors);
}
