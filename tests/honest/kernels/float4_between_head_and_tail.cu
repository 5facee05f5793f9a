// problem: scale_add
// why: reads and writes sixteen bytes at once, as float4, between an unaligned head and a tail of its output
#include <cstdint>

#include <cuda_runtime.h>

__global__ void vectorised(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    const int64_t head = (16 - (reinterpret_cast<uintptr_t>(out) & 15)) / 4 % 4;
    const bool together = ((reinterpret_cast<uintptr_t>(x + head) | reinterpret_cast<uintptr_t>(y + head)) & 15) == 0;
    const int64_t quads = together && n > head ? (n - head) / 4 : 0;
    const auto* x4 = reinterpret_cast<const float4*>(x + head);
    const auto* y4 = reinterpret_cast<const float4*>(y + head);
    auto* out4 = reinterpret_cast<float4*>(out + head);
    for (int64_t at = i; at < quads; at += step) {
        const float4 a = x4[at], b = y4[at];
        out4[at] = make_float4(alpha * a.x + b.x, alpha * a.y + b.y, alpha * a.z + b.z, alpha * a.w + b.w);
    }
    for (int64_t at = i; at < head && at < n; at += step) out[at] = alpha * x[at] + y[at];
    for (int64_t at = head + 4 * quads + i; at < n; at += step) out[at] = alpha * x[at] + y[at];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    vectorised<<<16, 128, 0, stream>>>(alpha, x, y, out, n);
}
