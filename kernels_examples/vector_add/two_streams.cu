// expect: ACCEPTED
// Two halves on two streams, tied to the caller's stream by events before and after: concurrency is allowed, running away from the stream is not.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

static void launch(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    if (n > 0) add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    static cudaStream_t second = nullptr;
    static cudaEvent_t ready = nullptr, finished = nullptr;
    if (second == nullptr) {
        cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&finished, cudaEventDisableTiming);
    }

    const int64_t half = n / 2;
    cudaEventRecord(ready, stream);
    cudaStreamWaitEvent(second, ready, 0);
    launch(a, b, c, half, stream);
    launch(a + half, b + half, c + half, n - half, second);
    cudaEventRecord(finished, second);
    cudaStreamWaitEvent(stream, finished, 0);
}
