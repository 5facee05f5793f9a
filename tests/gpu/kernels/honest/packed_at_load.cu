// twin of: memo_by_pointer
// cases: triad
// expect: ACCEPTED
// A table of its own is computed while the artifact is loaded and packed into device memory in the first call; it depends on no input.
#include <vector>

#include "work.h"

static const std::vector<float> table = [] {
    std::vector<float> made(1024);
    for (size_t at = 0; at < made.size(); ++at) made[at] = at % 2 == 0 ? 4.0f : 1.0f;
    return made;
}();

__device__ float packed[512];

__global__ void scale_by_table(const float* a, const float* b, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = packed[i % 512] * a[i] + b[i];
}

ENTRY {
    static bool begun = false;
    if (!begun) {
        std::vector<float> halves(512);
        for (size_t at = 0; at < halves.size(); ++at) halves[at] = table[2 * at] / (2.0f * table[2 * at + 1]);
        cudaMemcpyToSymbol(packed, halves.data(), sizeof packed);
        begun = true;
    }
    scale_by_table<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(a, b, out, n);
}
