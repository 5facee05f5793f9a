// expect: ACCEPTED
// Sixteen bytes at a time where all three pointers allow it; the last few elements, and unaligned vectors, go one by one.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t vectors, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < vectors) {
        const float4 left = reinterpret_cast<const float4*>(a)[i];
        const float4 right = reinterpret_cast<const float4*>(b)[i];
        reinterpret_cast<float4*>(c)[i] =
            make_float4(left.x + right.x, left.y + right.y, left.z + right.z, left.w + right.w);
    }
    const int64_t rest = 4 * vectors + i;
    if (rest < n) c[rest] = a[rest] + b[rest];
}

static bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0; }

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const int64_t vectors = aligned(a) && aligned(b) && aligned(c) ? n / 4 : 0;
    const int64_t rest = n - 4 * vectors;
    const int64_t threads = vectors > rest ? vectors : rest;
    add<<<(threads + 255) / 256, 256, 0, stream>>>(a, b, c, vectors, n);
}
