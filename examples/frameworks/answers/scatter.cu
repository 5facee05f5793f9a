// expect: ACCEPTED
// Atomic additions into an output that was cleared on the same stream.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void add_rows(const float* x, const int64_t* index, float* out, int64_t tokens, int64_t cols) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < tokens * cols) atomicAdd(out + index[i / cols] * cols + i % cols, x[i]);
}

extern "C" void solve(
    const float* x, const int64_t* index, float* out, int64_t tokens, int64_t rows, int64_t cols, cudaStream_t stream) {
    cudaMemsetAsync(out, 0, rows * cols * sizeof(float), stream);
    add_rows<<<static_cast<unsigned>((tokens * cols + 255) / 256), 256, 0, stream>>>(x, index, out, tokens, cols);
}
