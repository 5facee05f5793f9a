// problem: scale_add
// why: prints to stdout and stderr when it is loaded and in every call of a ranked run, where no output is shown
// mode: ranked
#include <cstdint>
#include <cstdio>

#include <cuda_runtime.h>

__attribute__((constructor)) static void at_load() {
    std::printf("loaded, version 3\n");
    std::fflush(stdout);
}

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    static int calls = 0;
    if (++calls <= 8) std::fprintf(stderr, "call %d with %lld elements\n", calls, static_cast<long long>(n));
    scale_add<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(alpha, x, y, out, n);
}
