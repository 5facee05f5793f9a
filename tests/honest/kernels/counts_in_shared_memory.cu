// problem: histogram
// why: integer atomics on shared and on global memory; no two runs do them in the same order, and the result is still exact
#include <cstdint>

#include <cuda_runtime.h>

__global__ void count(const int* values, const int64_t* weights, unsigned long long* counts, int64_t n, int64_t bins) {
    extern __shared__ unsigned own[];
    for (int64_t bin = threadIdx.x; bin < bins; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < n; i += gridDim.x * blockDim.x) atomicAdd(own + values[i], 1u);
    __syncthreads();
    for (int64_t bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        if (own[bin] > 0) atomicAdd(counts + bin, own[bin] * static_cast<unsigned long long>(weights[bin]));
    }
}

extern "C" void solve(const int* values, const int64_t* weights, int64_t* counts, int64_t n, int64_t bins, cudaStream_t stream) {
    cudaMemsetAsync(counts, 0, bins * sizeof(int64_t), stream);
    count<<<8, 256, bins * sizeof(unsigned), stream>>>(values, weights, reinterpret_cast<unsigned long long*>(counts), n, bins);
}
