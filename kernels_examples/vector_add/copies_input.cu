// expect: WRONG_ANSWER MISMATCH
// A copy writes every element, at the speed of memory, and computes nothing.
#include <cstdint>

#include <cuda_runtime.h>

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    cudaMemcpyAsync(c, a, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
}
