// Shuffles of every type that they take.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdio>
template <typename T>
__device__ float turn(T value) {
    return (float)__shfl_xor_sync(0xffffffff, value, 1);
}
__global__ void types(float* out) {
    float t = threadIdx.x;
    float sum = turn((float)t) + turn((double)t) + turn((int)t) + turn((unsigned)t) + turn((long long)t) + turn((unsigned long long)t) +
                turn(__float2half(t)) + turn(__float2bfloat16(t));
    half2 pair = __shfl_down_sync(0xffffffff, __floats2half2_rn(t, -t), 1);
    out[threadIdx.x] = sum + __low2float(pair) * 100 + __high2float(pair);
}
int main() {
    float h[32], *out;
    cudaMalloc(&out, sizeof h);
    types<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %g %g %g\n", h[0], h[1], h[30], h[31]);
}
