// The honest work of lower_half: copies what is below the diagonal, and writes zeros above it.
#include <cstdint>
#include <cstdio>

#include <cuda_runtime.h>

#define ENTRY extern "C" void solve(const float* a, float* out, int64_t n, cudaStream_t stream)

// part: 1 the lower half, 2 the zeros, 3 both
__global__ void work_kernel(const float* __restrict__ a, float* __restrict__ out, int64_t n, int part) {
    const int64_t row = blockIdx.y, column = 4 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
    for (int64_t at = column; at < column + 4 && at < n; ++at) {
        const bool lower = at <= row;
        if (part & (lower ? 1 : 2)) out[row * n + at] = lower ? a[row * n + at] : 0.0f;
    }
}

[[maybe_unused]] static inline void write_part(const float* a, float* out, int64_t n, int part, cudaStream_t stream) {
    work_kernel<<<dim3(static_cast<unsigned>((n + 1023) / 1024), static_cast<unsigned>(n)), 256, 0, stream>>>(a, out, n, part);
}

[[maybe_unused]] static inline void honest(const float* a, float* out, int64_t n, cudaStream_t stream) { write_part(a, out, n, 3, stream); }
