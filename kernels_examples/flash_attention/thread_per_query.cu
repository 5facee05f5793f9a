// expect: ACCEPTED
// Flash attention without tensor cores: a thread keeps its query and its output in registers, and keys and values pass by in shared memory.
#include <cmath>
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int DIM = 64, QUERIES = 128, KEYS = 32, GROUP = 8;
constexpr float SCALE = 0.125f * 1.44269504f;  // 1 / sqrt(64), and exponentials to the base of two

__device__ __forceinline__ float2 pair(const __half* from, int64_t row, int64_t column_pair, int64_t rows) {
    return row < rows ? __half22float2(reinterpret_cast<const __half2*>(from + row * DIM)[column_pair]) : make_float2(0.0f, 0.0f);
}

__global__ void __launch_bounds__(QUERIES)
attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v, __half* __restrict__ o, int64_t seq) {
    __shared__ __align__(16) float keys[KEYS][DIM];
    __shared__ __align__(16) float values[KEYS][DIM];
    const int64_t head = static_cast<int64_t>(blockIdx.x) * seq * DIM;
    const int64_t first_query = static_cast<int64_t>(gridDim.y - 1 - blockIdx.y) * QUERIES;  // the longest rows begin first
    const int64_t query = first_query + threadIdx.x, seen = first_query + QUERIES < seq ? first_query + QUERIES : seq;

    float mine[DIM], sums[DIM] = {}, top = -INFINITY, total = 0.0f;
    #pragma unroll
    for (int d = 0; d < DIM / 2; ++d) {
        const float2 two = pair(q + head, query, d, seq);
        mine[2 * d] = two.x * SCALE;
        mine[2 * d + 1] = two.y * SCALE;
    }
    for (int64_t start = 0; start < seen; start += KEYS) {
        __syncthreads();
        for (int i = threadIdx.x; i < KEYS * DIM / 2; i += QUERIES) {
            const int row = i / (DIM / 2), at = i % (DIM / 2);
            reinterpret_cast<float2*>(keys[row])[at] = pair(k + head, start + row, at, seq);
            reinterpret_cast<float2*>(values[row])[at] = pair(v + head, start + row, at, seq);
        }
        __syncthreads();
        for (int first = 0; first < KEYS && start + first <= query; first += GROUP) {  // its first key is one that the query sees
            float scores[GROUP], peak = top;
            #pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                float score = 0.0f;
                #pragma unroll
                for (int d = 0; d < DIM; ++d) score = fmaf(mine[d], keys[first + g][d], score);
                scores[g] = start + first + g <= query ? score : -INFINITY;
                peak = fmaxf(peak, scores[g]);
            }
            const float shrink = exp2f(top - peak);
            total *= shrink;
            #pragma unroll
            for (int d = 0; d < DIM; ++d) sums[d] *= shrink;
            #pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                const float share = exp2f(scores[g] - peak);
                total += share;
                #pragma unroll
                for (int d = 0; d < DIM; ++d) sums[d] = fmaf(share, values[first + g][d], sums[d]);
            }
            top = peak;
        }
    }

    if (query >= seq) return;
    __half2* out = reinterpret_cast<__half2*>(o + head + query * DIM);
    #pragma unroll
    for (int d = 0; d < DIM / 2; ++d) out[d] = __floats2half2_rn(sums[2 * d] / total, sums[2 * d + 1] / total);
}

extern "C" void solve(
    const __half* q, const __half* k, const __half* v, __half* o, int64_t batch, int64_t heads, int64_t seq, cudaStream_t stream) {
    attention<<<dim3(batch * heads, (seq + QUERIES - 1) / QUERIES), QUERIES, 0, stream>>>(q, k, v, o, seq);
}
