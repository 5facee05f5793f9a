// problem: filter_1d
// why: copies an input into constant memory in every call, where it stays when the call is over
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int TAPS = 31;
__constant__ float kept[TAPS];

__global__ void filter(const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
        const int64_t at = i + tap - TAPS / 2;
        if (at >= 0 && at < n) sum += kept[tap] * x[at];
    }
    out[i] = sum;
}

extern "C" void solve(const float* x, const float* taps, float* out, int64_t n, cudaStream_t stream) {
    cudaMemcpyToSymbolAsync(kept, taps, TAPS * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    filter<<<static_cast<unsigned>((n + 127) / 128), 128, 0, stream>>>(x, out, n);
}
