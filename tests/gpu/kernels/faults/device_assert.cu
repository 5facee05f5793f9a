// id: M5
// expect: RUNTIME_ERROR DEVICE_ASSERT
// An assertion in a kernel fails.
#include <cassert>

#include "work.h"

__global__ void claim(const float* a, float* out) {
    assert(a[threadIdx.x] > 1e30f);
    out[threadIdx.x] = 1.0f;
}

ENTRY { claim<<<1, 32, 0, stream>>>(a, out); }
