// expect: ACCEPTED
// A matrix without gaps is one long vector: four elements at a time where both pointers allow it, and the last few one by one.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void square(const float* __restrict__ x, float* __restrict__ y, int64_t vectors, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < vectors) {
        const float4 in = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(in.x * in.x, in.y * in.y, in.z * in.z, in.w * in.w);
    }
    const int64_t rest = 4 * vectors + i;
    if (rest < n) y[rest] = x[rest] * x[rest];
}

static bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0; }

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    const int64_t n = rows * cols;
    const int64_t vectors = aligned(x) && aligned(y) ? n / 4 : 0;
    const int64_t rest = n - 4 * vectors;
    const int64_t threads = vectors > rest ? vectors : rest;
    square<<<(threads + 255) / 256, 256, 0, stream>>>(x, y, vectors, n);
}
