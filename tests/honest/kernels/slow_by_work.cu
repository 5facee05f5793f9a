// problem: scale_add
// why: computes every element two hundred times over and far slower than the reference; slow is no offence
#include <cstdint>

#include <cuda_runtime.h>

__global__ void scale_add(float alpha, const float* x, const float* y, volatile float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int again = 0; i < n && again < 200; ++again) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    scale_add<<<static_cast<unsigned>((n + 31) / 32), 32, 0, stream>>>(alpha, x, y, out, n);
    cudaStreamSynchronize(stream);
}
