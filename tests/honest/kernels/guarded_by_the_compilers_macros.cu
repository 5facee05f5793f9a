// problem: twice
// why: its kernel stands between #ifdef __CUDACC__ and #endif, as in headers that .cpp and .cu files share, and a macro needs the runtime's guard
#include <cuda_runtime.h>

#include <cstdint>

#if defined(__NVCC__) && __CUDACC_VER_MAJOR__ >= 11 && defined(__DRIVER_TYPES_H__)
#define BLOCK 64
#endif

void launch_twice(const float* x, float* y, int64_t n);
#ifdef __CUDACC__
__global__ void twice(const float* x, float* y, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}

void launch_twice(const float* x, float* y, int64_t n) {
    if (n > 0) twice<<<static_cast<unsigned>((n + BLOCK - 1) / BLOCK), BLOCK>>>(x, y, n);
}
#endif

extern "C" void solve(const float* x, float* y, int64_t n) { launch_twice(x, y, n); }
