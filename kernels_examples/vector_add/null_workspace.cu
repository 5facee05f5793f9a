// expect: RUNTIME_ERROR ILLEGAL_ADDRESS
// The workspace grows only when it is already large enough, a comparison the wrong way round, so the kernel writes through a null pointer.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* workspace, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) workspace[i] = a[i] + b[i];
}

static float* workspace_of(int64_t n) {
    static float* buffer = nullptr;
    static int64_t capacity = 0;
    if (n < capacity) {
        cudaFree(buffer);
        cudaMalloc(&buffer, n * sizeof(float));
        capacity = n;
    }
    return buffer;
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    float* workspace = workspace_of(n);
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, workspace, n);
    cudaMemcpyAsync(c, workspace, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
}
