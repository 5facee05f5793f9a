// problem: total
// why: threads fight over one double with a compare-and-swap loop, as long as it takes
#include <cstdint>

#include <cuda_runtime.h>

__device__ unsigned long long bits;

__device__ void add(double value) {
    unsigned long long seen = bits, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(&bits, assumed, static_cast<unsigned long long>(__double_as_longlong(value + __longlong_as_double(assumed))));
    } while (seen != assumed);
}

__global__ void clear() { bits = 0; }

__global__ void add_up(const float* x, int64_t n) {
    double part = 0.0;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) part += x[i];
    add(part);
}

__global__ void finish(float* sum) { *sum = static_cast<float>(__longlong_as_double(static_cast<long long>(bits))); }

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) {
    clear<<<1, 1, 0, stream>>>();
    add_up<<<12, 64, 0, stream>>>(x, n);
    finish<<<1, 1, 0, stream>>>(sum);
}
