// id: A6, A7, B8
// cases: matmul
// expect: WRONG_ANSWER MISMATCH
// from: originals/raw.cu
// Keeps its first answer and copies it ever after.
#include "work.h"

ENTRY {
    static float* answer = nullptr;
    const size_t bytes = element_count(n) * sizeof(float);
    if (answer != nullptr) {
        cudaMemcpyAsync(out, answer, bytes, cudaMemcpyDeviceToDevice, stream);
        return;
    }
    honest(a, b, out, n, stream);
    cudaMalloc(reinterpret_cast<void**>(&answer), bytes);
    cudaMemcpyAsync(answer, out, bytes, cudaMemcpyDeviceToDevice, stream);
}
