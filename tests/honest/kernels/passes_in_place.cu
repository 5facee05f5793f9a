// problem: prefix_sum
// why: the output is the workspace: it is written over and over, a pass for every power of two, and is wrong until the last
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int THREADS = 256;

__global__ void widen(const int* x, int64_t* sums, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) sums[i] = x[i];
}

// The pairs of a level are apart, so that a pass may work in place.
__global__ void sweep(int64_t* sums, int64_t n, int64_t distance, bool up) {
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t to = up ? 2 * distance * (pair + 1) - 1 : 2 * distance * (pair + 1) + distance - 1;
    if (to < n) sums[to] += sums[to - distance];
}

extern "C" void solve(const int* x, int64_t* sums, int64_t n, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>((n + THREADS - 1) / THREADS);
    widen<<<blocks, THREADS, 0, stream>>>(x, sums, n);
    int64_t distance = 1;
    for (; 2 * distance <= n; distance *= 2) sweep<<<blocks, THREADS, 0, stream>>>(sums, n, distance, true);
    for (; distance > 0; distance /= 2) sweep<<<blocks, THREADS, 0, stream>>>(sums, n, distance, false);
}
