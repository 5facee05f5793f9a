// expect: WRONG_ANSWER NON_FINITE
// A query sees itself: with key < query the first one sees nothing, and nothing divided by nothing is not a number.
#include <cmath>
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int DIM = 64, QUERIES = 64;

__global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, int64_t seq) {
    const int64_t head = static_cast<int64_t>(blockIdx.x) * seq * DIM;
    const int64_t query = static_cast<int64_t>(blockIdx.y) * QUERIES + threadIdx.x;
    if (query >= seq) return;

    float mine[DIM], sums[DIM] = {}, top = -INFINITY, total = 0.0f;
    for (int d = 0; d < DIM; ++d) mine[d] = __half2float(q[head + query * DIM + d]) * 0.125f;
    for (int64_t key = 0; key < query; ++key) {
        float score = 0.0f;
        for (int d = 0; d < DIM; ++d) score += mine[d] * __half2float(k[head + key * DIM + d]);
        const float peak = fmaxf(top, score), shrink = expf(top - peak), share = expf(score - peak);
        total = total * shrink + share;
        for (int d = 0; d < DIM; ++d) sums[d] = sums[d] * shrink + share * __half2float(v[head + key * DIM + d]);
        top = peak;
    }
    for (int d = 0; d < DIM; ++d) o[head + query * DIM + d] = __float2half(sums[d] / total);
}

extern "C" void solve(
    const __half* q, const __half* k, const __half* v, __half* o, int64_t batch, int64_t heads, int64_t seq, cudaStream_t stream) {
    attention<<<dim3(batch * heads, (seq + QUERIES - 1) / QUERIES), QUERIES, 0, stream>>>(q, k, v, o, seq);
}
