// problem: scale_add
// why: prints a few lines from the device and from the host in every call
#include <cstdint>

#include <cuda_runtime.h>

#include <cstdio>

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i == 0) printf("ACCEPTED says element %lld: %f\n", static_cast<long long>(i), x[i]);
    if (i < n) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    std::printf("a call with %lld elements\n", static_cast<long long>(n));
    std::fprintf(stderr, "warning: nothing is wrong\n");
    scale_add<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(alpha, x, y, out, n);
}
