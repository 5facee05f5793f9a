// id: M5
// expect: RUNTIME_ERROR ILLEGAL_ADDRESS
// Writes 16 TiB behind the output.
#include "work.h"

__global__ void stray(float* out) { out[(int64_t{1} << 42) + threadIdx.x] = 1.0f; }

ENTRY { stray<<<1, 32, 0, stream>>>(out); }
