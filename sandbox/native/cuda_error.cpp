// Linked into a kernel that brings its own CUDA runtime, whose last error nothing outside of it can see.
#include <cuda_runtime_api.h>
#include <stdio.h>

// What the runner calls around a launch: the last error as "name: text", which it clears; "" for none.
extern "C" __attribute__((weak, visibility("default"))) const char* grader_take_cuda_error() {
    static char text[256];
    cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess) return "";
    snprintf(text, sizeof text, "%s: %s", cudaGetErrorName(code), cudaGetErrorString(code));
    return text;
}
