// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// The elements of 1823 x 781 (of 223 x 781 too) are three more than a multiple of four, and nobody writes the last three.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void square(const float4* x, float4* y, int64_t vectors) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= vectors) return;
    const float4 in = x[i];
    y[i] = make_float4(in.x * in.x, in.y * in.y, in.z * in.z, in.w * in.w);
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    const int64_t vectors = rows * cols / 4;
    square<<<(vectors + 255) / 256, 256, 0, stream>>>(
        reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(y), vectors);
}
