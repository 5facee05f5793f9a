// problem: scale_add
// why: allocates and frees a workspace in every call, both ordered by the stream and at once
#include <cstdint>

#include <cuda_runtime.h>

__global__ void scale(float alpha, const float* x, float* scaled, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) scaled[i] = alpha * x[i];
}

__global__ void add(const float* scaled, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scaled[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    const int64_t half = n / 2, sizes[2] = {half, n - half};
    const auto blocks = [](int64_t count) { return static_cast<unsigned>((count + 255) / 256); };
    float* ordered = nullptr;
    float* plain = nullptr;
    cudaMallocAsync(&ordered, (sizes[0] + 1) * sizeof(float), stream);
    cudaMalloc(&plain, sizes[1] * sizeof(float));
    if (half > 0) {
        scale<<<blocks(half), 256, 0, stream>>>(alpha, x, ordered, half);
        add<<<blocks(half), 256, 0, stream>>>(ordered, y, out, half);
    }
    scale<<<blocks(sizes[1]), 256, 0, stream>>>(alpha, x + half, plain, sizes[1]);
    add<<<blocks(sizes[1]), 256, 0, stream>>>(plain, y + half, out + half, sizes[1]);
    cudaFreeAsync(ordered, stream);
    cudaStreamSynchronize(stream);
    cudaFree(plain);
}
