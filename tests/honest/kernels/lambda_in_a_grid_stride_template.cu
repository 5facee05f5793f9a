// problem: scale_add
// why: the kernel is a template that is handed a lambda, and a fixed grid strides over the vector
#include <cstdint>

#include <cuda_runtime.h>

template <int Unrolled, class Function>
__global__ void for_each(int64_t n, Function function) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; at + (Unrolled - 1) * step < n; at += Unrolled * step) {
#pragma unroll
        for (int one = 0; one < Unrolled; ++one) function(at + one * step);
    }
    for (; at < n; at += step) function(at);
}

template <class Function>
static void over(int64_t n, cudaStream_t stream, Function function) {
    if (n >= 4096) for_each<4><<<8, 256, 0, stream>>>(n, function);
    else for_each<1><<<8, 64, 0, stream>>>(n, function);
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    over(n, stream, [=] __device__(int64_t at) { out[at] = alpha * x[at] + y[at]; });
}
