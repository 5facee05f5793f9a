// Asynchronous copies into shared memory, waited for.
#include <cuda_pipeline.h>
#include <cstdio>
__global__ void load(const float4* x, float* out) {
    __shared__ float4 buffer[32];
    __pipeline_memcpy_async(&buffer[threadIdx.x], &x[threadIdx.x], sizeof(float4));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    float4 v = buffer[31 - threadIdx.x];
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
int main() {
    float h[128], *x, *out;
    for (int i = 0; i < 128; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h), cudaMalloc(&out, 32 * sizeof(float));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    load<<<1, 32>>>((const float4*)x, out);
    cudaMemcpy(h, out, 32 * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g %g\n", h[0], h[31]);
}
