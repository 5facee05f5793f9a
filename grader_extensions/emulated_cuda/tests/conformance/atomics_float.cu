// Atomic sums of float, double and half: of small whole numbers, so that the order does not show.
#include <cuda_fp16.h>
#include <cstdio>
__global__ void sums(float* f, double* d, half* h, float* swapped) {
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(h, __float2half(1.0f));
    atomicExch(swapped, 7.0f);
}
int main() {
    float f = 0, *pf, *ps;
    double d = 0, *pd;
    half h = __float2half(0.0f), *ph;
    cudaMalloc(&pf, 4), cudaMalloc(&pd, 8), cudaMalloc(&ph, 2), cudaMalloc(&ps, 4);
    cudaMemset(pf, 0, 4), cudaMemset(pd, 0, 8), cudaMemset(ph, 0, 2);
    sums<<<8, 64>>>(pf, pd, ph, ps);
    cudaMemcpy(&f, pf, 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(&d, pd, 8, cudaMemcpyDeviceToHost);
    cudaMemcpy(&h, ph, 2, cudaMemcpyDeviceToHost);
    printf("%g %g %g", f, d, __half2float(h));
    cudaMemcpy(&f, ps, 4, cudaMemcpyDeviceToHost);
    printf(" %g\n", f);
}
