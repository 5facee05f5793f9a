// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// Right for every public length, all multiples of four; a hidden one leaves up to three elements unwritten.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t vectors) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= vectors) return;
    const float* left = a + 4 * i;
    const float* right = b + 4 * i;
    float* sum = c + 4 * i;
    #pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] = left[j] + right[j];
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const int64_t vectors = n / 4;
    add<<<vectors / 256 + 1, 256, 0, stream>>>(a, b, c, vectors);
}
