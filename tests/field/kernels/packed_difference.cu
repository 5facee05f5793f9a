// problem: packed_difference
#include <cuda_runtime.h>

__global__ void difference(const int* a, const int* b, int* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = __vsubss4(a[i], b[i]);
}

extern "C" void solve(const signed char* a, const signed char* b, signed char* c, int n) {
    difference<<<(n + 255) / 256, 256>>>((const int*)a, (const int*)b, (int*)c, n);
}
