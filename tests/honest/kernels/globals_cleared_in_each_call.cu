// problem: histogram
// why: counts in device globals, which outlive the call, and clears them at the beginning of each
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int LARGEST = 1024;
__device__ unsigned long long kept[LARGEST];

__global__ void count(const int* values, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(kept + values[i], 1ull);
}

__global__ void weigh(const int64_t* weights, int64_t* counts, int64_t bins) {
    const int64_t bin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (bin < bins) counts[bin] = static_cast<int64_t>(kept[bin]) * weights[bin];
}

extern "C" void solve(const int* values, const int64_t* weights, int64_t* counts, int64_t n, int64_t bins, cudaStream_t stream) {
    void* address = nullptr;
    cudaGetSymbolAddress(&address, kept);
    cudaMemsetAsync(address, 0, bins * sizeof(unsigned long long), stream);
    count<<<static_cast<unsigned>((n + 127) / 128), 128, 0, stream>>>(values, n);
    weigh<<<static_cast<unsigned>((bins + 127) / 128), 128, 0, stream>>>(weights, counts, bins);
}
