// id: M2
// expect: TIME_LIMIT_EXCEEDED TRIAL
// Every multiprocessor is full of threads that never end.
#include "work.h"

__global__ void spin(volatile float* out) {
    while (out[threadIdx.x] == out[threadIdx.x] || out[0] != out[0]) {}
}

ENTRY { spin<<<4096, 1024, 0, stream>>>(out); }
