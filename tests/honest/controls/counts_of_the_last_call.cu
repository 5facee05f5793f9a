// problem: histogram
// why: never clears its own counters, so that every call but the first adds to those of the calls before
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
    count<<<static_cast<unsigned>((n + 127) / 128), 128, 0, stream>>>(values, n);
    weigh<<<static_cast<unsigned>((bins + 127) / 128), 128, 0, stream>>>(weights, counts, bins);
}
