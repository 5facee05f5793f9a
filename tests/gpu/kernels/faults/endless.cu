// id: M2
// expect: TIME_LIMIT_EXCEEDED TRIAL
// A kernel that never ends.
#include "work.h"

__global__ void spin(volatile float* out) {
    while (out[0] == out[0] || out[0] != out[0]) {}
}

ENTRY { spin<<<1, 1, 0, stream>>>(out); }
