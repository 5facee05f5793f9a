// expect: WRONG_ANSWER INPUT_MODIFIED
// The sum is right, but it was made inside an input that belongs to the caller.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void accumulate(float* a, const float* b, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) a[i] += b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    accumulate<<<(n + 255) / 256, 256, 0, stream>>>(const_cast<float*>(a), b, n);
    cudaMemcpyAsync(c, a, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
}
