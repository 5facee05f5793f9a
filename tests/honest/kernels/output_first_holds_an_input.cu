// problem: scale_add
// why: copies an input into the output with cudaMemcpyAsync, as a stale answer would look, and then works in place
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add_scaled(float alpha, const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] += alpha * x[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    cudaMemsetAsync(out, 0, n * sizeof(float), stream);
    cudaMemcpyAsync(out, y, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    add_scaled<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(alpha, x, out, n);
}
