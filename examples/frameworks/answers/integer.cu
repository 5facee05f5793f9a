// expect: COMPILE_ERROR
// The name of the output is spelled in two ways.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void count_numbers(const int* x, int64_t* count, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(reinterpret_cast<unsigned long long*>(counts + x[i]), 1ull);
}

extern "C" void solve(const int* x, int64_t* count, int64_t n, int64_t bins, cudaStream_t stream) {
    cudaMemsetAsync(count, 0, bins * sizeof(int64_t), stream);
    count_numbers<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, count, n);
}
