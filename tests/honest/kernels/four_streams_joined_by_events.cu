// problem: scale_add
// mode: ranked
// why: four streams that are not the caller's do the work, each a quarter; events tie them to the caller's stream on both sides
#include <cstdint>

#include <cuda_runtime.h>

static constexpr int COUNT = 4;

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    static cudaStream_t sides[COUNT];
    static cudaEvent_t fork = nullptr, joins[COUNT];
    if (fork == nullptr) {
        cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
        for (int side = 0; side < COUNT; ++side) {
            cudaStreamCreateWithPriority(&sides[side], cudaStreamNonBlocking, 0);
            cudaEventCreateWithFlags(&joins[side], cudaEventDisableTiming);
        }
    }
    const int64_t share = (n + COUNT - 1) / COUNT;
    cudaEventRecord(fork, stream);
    for (int side = 0; side < COUNT; ++side) {
        const int64_t begin = side * share, count = begin + share < n ? share : n - begin;
        if (count <= 0) break;
        cudaStreamWaitEvent(sides[side], fork, 0);
        scale_add<<<static_cast<unsigned>((count + 255) / 256), 256, 0, sides[side]>>>(alpha, x + begin, y + begin, out + begin, count);
        cudaEventRecord(joins[side], sides[side]);
        cudaStreamWaitEvent(stream, joins[side], 0);
    }
}
