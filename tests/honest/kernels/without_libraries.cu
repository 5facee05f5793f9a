// problem: own_kernels_only
// why: launches a kernel in an anonymous namespace and a template, copies within the device and waits: none of that is a library's
#include <cstdint>

#include <cuda_runtime.h>

namespace {

__global__ void scaled(float alpha, const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i];
}

template <int sign>
__global__ void added(const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] += sign * y[i];
}

}  // namespace

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>((n + 255) / 256);
    cudaMemcpyAsync(out, x, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    scaled<<<blocks, 256, 0, stream>>>(alpha, out, out, n);
    added<1><<<blocks, 256, 0, stream>>>(y, out, n);
    cudaDeviceSynchronize();
}
