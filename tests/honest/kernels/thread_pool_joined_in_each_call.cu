// problem: scale_add
// why: three host threads launch the work, each a third, and are joined before the call returns
#include <cstdint>

#include <cuda_runtime.h>

#include <thread>
#include <vector>

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    std::vector<std::thread> pool;
    const int64_t share = (n + 2) / 3;
    for (int64_t begin = 0; begin < n; begin += share) {
        const int64_t count = begin + share < n ? share : n - begin;
        pool.emplace_back([=] {
            scale_add<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(alpha, x + begin, y + begin, out + begin, count);
        });
    }
    for (std::thread& one : pool) one.join();
}
