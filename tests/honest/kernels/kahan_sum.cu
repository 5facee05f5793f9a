// problem: total
// why: one thread adds everything with Kahan's compensation, which is more exact than the reference
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add_up(const float* x, float* sum, int64_t n) {
    volatile float total = 0.0f, lost = 0.0f;
    for (int64_t i = 0; i < n; ++i) {
        const float wanted = x[i] - lost;
        const volatile float next = total + wanted;
        lost = (next - total) - wanted;
        total = next;
    }
    *sum = total;
}

extern "C" void solve(const float* x, float* sum, int64_t n, cudaStream_t stream) { add_up<<<1, 1, 0, stream>>>(x, sum, n); }
