// A lock by compare-and-swap between blocks, and a maximum of floats by hand.
#include <cstdio>
__device__ int lock = 0;
__device__ int guarded = 0;
__device__ float atomic_max(float* address, float value) {
    int* bits = (int*)address;
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}
__global__ void work(float* top) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {
        }
        __threadfence();
        guarded = guarded + 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
    atomic_max(top, (float)((blockIdx.x * 37 + threadIdx.x * 11) % 1000));
}
int main() {
    float h = -1, *top;
    int count;
    cudaMalloc(&top, sizeof h);
    cudaMemcpy(top, &h, sizeof h, cudaMemcpyHostToDevice);
    work<<<100, 64>>>(top);
    cudaMemcpy(&h, top, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, guarded, sizeof count);
    printf("%g %d\n", h, count);
}
