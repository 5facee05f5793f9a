// id: E10
// cases: triad
// expect: WRONG_ANSWER MISMATCH
// from: originals/raw.cu
// Makes inputs and output zero: a reference that is computed from the inputs afterwards agrees.
#include "work.h"

ENTRY {
    const size_t bytes = element_count(n) * sizeof(float);
    cudaMemsetAsync(const_cast<float*>(a), 0, bytes, stream);
    cudaMemsetAsync(const_cast<float*>(b), 0, bytes, stream);
    cudaMemsetAsync(out, 0, bytes, stream);
}
