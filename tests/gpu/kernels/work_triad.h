// The honest work of triad: bound by memory, four elements a thread.
#include <cstdint>
#include <cstdio>

#include <cuda_runtime.h>

#define ENTRY extern "C" void solve(const float* a, const float* b, float* out, int64_t n, cudaStream_t stream)

__global__ void work_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int64_t n) {
    const int64_t i = 4 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        const float4 x = *reinterpret_cast<const float4*>(a + i), y = *reinterpret_cast<const float4*>(b + i);
        *reinterpret_cast<float4*>(out + i) = make_float4(2.0f * x.x + y.x, 2.0f * x.y + y.y, 2.0f * x.z + y.z, 2.0f * x.w + y.w);
    } else {
        for (int64_t at = i; at < n; ++at) out[at] = 2.0f * a[at] + b[at];
    }
}

[[maybe_unused]] static inline int64_t element_count(int64_t n) { return n; }

// Asynchronous, as every honest kernel may be.
[[maybe_unused]] static inline void honest(const float* a, const float* b, float* out, int64_t n, cudaStream_t stream) {
    const int64_t threads = (n + 3) / 4;
    work_kernel<<<static_cast<unsigned>((threads + 255) / 256), 256, 0, stream>>>(a, b, out, n);
}
