// id: E10, H8
// cases: triad
// expect: WRONG_ANSWER INPUT_MODIFIED
// from: originals/raw.cu
// Computes in place, in the first input, and copies that to the output: the answer is right.
#include "work.h"

__global__ void in_place(float* a, const float* b, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 2.0f * a[i] + b[i];
}

ENTRY {
    in_place<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(const_cast<float*>(a), b, n);
    cudaMemcpyAsync(out, a, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
}
