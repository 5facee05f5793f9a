// id: M5
// expect: RUNTIME_ERROR
// Stores four floats at an address that is no multiple of 16.
#include "work.h"

__global__ void stray(float* out) { *reinterpret_cast<float4*>(out + 1) = make_float4(1.0f, 2.0f, 3.0f, 4.0f); }

ENTRY { stray<<<1, 1, 0, stream>>>(out); }
