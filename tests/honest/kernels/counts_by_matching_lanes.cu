// problem: histogram
// why: lanes with the same value find each other and only one of them writes, so that most threads write nothing
#include <cstdint>

#include <cuda_runtime.h>

__global__ void count(const int* values, const int64_t* weights, unsigned long long* counts, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const unsigned here = __ballot_sync(~0u, i < n);
    if (i >= n) return;
    const unsigned same = __match_any_sync(here, values[i]);
    if (__ffs(static_cast<int>(same)) - 1 != static_cast<int>(threadIdx.x % 32)) return;
    atomicAdd(counts + values[i], static_cast<unsigned long long>(__popc(same)) * static_cast<unsigned long long>(weights[values[i]]));
}

extern "C" void solve(const int* values, const int64_t* weights, int64_t* counts, int64_t n, int64_t bins, cudaStream_t stream) {
    cudaMemsetAsync(counts, 0, bins * sizeof(int64_t), stream);
    count<<<static_cast<unsigned>((n + 127) / 128), 128, 0, stream>>>(values, weights, reinterpret_cast<unsigned long long*>(counts), n);
}
