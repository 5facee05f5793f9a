// id: C12
// cases: triad DELAY_CYCLES=0; constant_triad DELAY_CYCLES=0
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: ^launched early
// Launched with programmatic stream serialization, never waits for what comes before it in the stream, and lets its own successor start
// at once: it would read inputs before they are there. What comes before it is a wait for a number, and no kernel that lets it start.
#include "parameters.h"
#include "work.h"

__global__ void early(const float* a, const float* b, float* out, int64_t n) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const float x = i < n ? static_cast<const volatile float*>(a)[i] : 0.0f;
#if DELAY_CYCLES  // for the control: what this launch writes is not there yet when its successor reads
    for (const long long end = clock64() + DELAY_CYCLES; clock64() < end;) {}
#endif
    if (i < n) out[i] = 2.0f * x + b[i];
}

ENTRY {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>((n + 255) / 256));
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    static bool told = false;
    const cudaError_t status = cudaLaunchKernelEx(&config, early, a, b, out, n);
    if (!told) fprintf(stderr, status == cudaSuccess ? "launched early\n" : "not launched\n");
    told = true;
}
