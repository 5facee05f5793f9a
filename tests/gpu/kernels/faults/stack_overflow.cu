// id: M5
// expect: RUNTIME_ERROR STACK_OVERFLOW | RUNTIME_ERROR ILLEGAL_ADDRESS | RUNTIME_ERROR DEVICE_FAULT
// Recursion without end on the device.
#include "work.h"

__device__ __noinline__ float descend(const float* a, int depth) {
    volatile float local[64];
    for (int at = 0; at < 64; ++at) local[at] = a[(depth + at) % 1024];
    if (local[depth % 64] > 1e30f) return local[0];
    return descend(a, depth + 1) + local[(depth + 1) % 64];
}

__global__ void recurse(const float* a, float* out) { out[threadIdx.x] = descend(a, threadIdx.x); }

ENTRY { recurse<<<1, 32, 0, stream>>>(a, out); }
