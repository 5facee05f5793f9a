// expect: ACCEPTED
// Online softmax by a whole block, four columns at a time: the row is read twice, the second time from the cache, and none of it is kept.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 512, WARPS = THREADS / 32;

struct Partial {
    float top = -INFINITY, sum = 0.0f;
};

__device__ __forceinline__ Partial merge(Partial left, Partial right) {
    const float top = fmaxf(left.top, right.top);
    if (top == -INFINITY) return left;  // nothing on either side yet
    Partial both;
    both.top = top;
    both.sum = left.sum * expf(left.top - top) + right.sum * expf(right.top - top);
    return both;
}

__device__ __forceinline__ Partial merge_warp(Partial mine) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        Partial other;
        other.top = __shfl_xor_sync(0xffffffffu, mine.top, offset);
        other.sum = __shfl_xor_sync(0xffffffffu, mine.sum, offset);
        mine = merge(mine, other);
    }
    return mine;
}

__device__ __forceinline__ void add(Partial& to, float value) {
    if (value > to.top) {
        to.sum *= expf(to.top - value);
        to.top = value;
    }
    to.sum += expf(value - to.top);
}

__global__ void __launch_bounds__(THREADS) softmax(const float* __restrict__ x, float* __restrict__ y, int64_t cols, int64_t vectors) {
    __shared__ Partial of_warp[WARPS];
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    Partial mine;
    for (int64_t j = threadIdx.x; j < vectors; j += THREADS) {
        const float4 four = reinterpret_cast<const float4*>(in)[j];
        Partial group;
        group.top = fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
        group.sum = expf(four.x - group.top) + expf(four.y - group.top) + expf(four.z - group.top) + expf(four.w - group.top);
        mine = merge(mine, group);
    }
    for (int64_t j = 4 * vectors + threadIdx.x; j < cols; j += THREADS) add(mine, in[j]);

    mine = merge_warp(mine);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    const Partial row = merge_warp(threadIdx.x % 32 < WARPS ? of_warp[threadIdx.x % 32] : Partial());
    const float scale = 1.0f / row.sum;

    for (int64_t j = threadIdx.x; j < vectors; j += THREADS) {
        const float4 four = reinterpret_cast<const float4*>(in)[j];
        __stcs(reinterpret_cast<float4*>(out) + j, make_float4(  // past the cache, where rows are read again
            expf(four.x - row.top) * scale, expf(four.y - row.top) * scale,
            expf(four.z - row.top) * scale, expf(four.w - row.top) * scale));
    }
    for (int64_t j = 4 * vectors + threadIdx.x; j < cols; j += THREADS) out[j] = expf(in[j] - row.top) * scale;
}

static bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0; }

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    const int64_t vectors = aligned(x) && aligned(y) && cols % 4 == 0 ? cols / 4 : 0;
    softmax<<<rows, THREADS, 0, stream>>>(x, y, cols, vectors);
}
