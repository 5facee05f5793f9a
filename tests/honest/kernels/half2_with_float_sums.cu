// problem: matmul_half
// why: packs two halves into one word, converts them together, and keeps its sums in float
#include <cuda_fp16.h>

#include <cstdint>

#include <cuda_runtime.h>

__global__ void product(const __half* a, const __half* b, __half* c, int64_t m, int64_t n, int64_t k) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    const int64_t row = at / n, column = at % n;
    float sum = 0.0f;
    int64_t i = 0;
    for (; i + 1 < k; i += 2) {
        const float2 left = __half22float2(__halves2half2(a[row * k + i], a[row * k + i + 1]));
        const float2 right = __half22float2(__halves2half2(b[i * n + column], b[(i + 1) * n + column]));
        sum = fmaf(left.y, right.y, fmaf(left.x, right.x, sum));
    }
    if (i < k) sum = fmaf(__half2float(a[row * k + i]), __half2float(b[i * n + column]), sum);
    c[at] = __float2half_rn(sum);
}

extern "C" void solve(const __half* a, const __half* b, __half* c, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    product<<<static_cast<unsigned>((m * n + 127) / 128), 128, 0, stream>>>(a, b, c, m, n, k);
}
