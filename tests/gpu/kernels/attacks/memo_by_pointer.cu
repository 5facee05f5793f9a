// id: B6
// cases: triad
// expect: WRONG_ANSWER MISMATCH | WRONG_ANSWER UNWRITTEN_OUTPUT
// from: originals/raw.cu
// Remembers its answer by the addresses of the inputs, and copies it where they come again.
#include <map>

#include "work.h"

ENTRY {
    static std::map<const float*, float*> known;
    const size_t bytes = element_count(n) * sizeof(float);
    float*& answer = known[a];
    if (answer != nullptr) {
        cudaMemcpyAsync(out, answer, bytes, cudaMemcpyDeviceToDevice, stream);
        return;
    }
    honest(a, b, out, n, stream);
    if (cudaMalloc(reinterpret_cast<void**>(&answer), bytes) != cudaSuccess) return;
    cudaMemcpyAsync(answer, out, bytes, cudaMemcpyDeviceToDevice, stream);
}
