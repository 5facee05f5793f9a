// Variables of the device, initialised, changed by kernels, and reached by address.
#include <cstdio>
__device__ int counter = 5;
__device__ float table[3] = {1.5f, 2.5f, 3.5f};
__global__ void bump() { atomicAdd(&counter, (int)table[threadIdx.x]); }
int main() {
    int h;
    float *address, value = 10;
    size_t bytes;
    bump<<<1, 3>>>();
    cudaMemcpyFromSymbol(&h, counter, sizeof h);
    cudaGetSymbolAddress((void**)&address, table);
    cudaGetSymbolSize(&bytes, table);
    cudaMemcpy(address + 1, &value, sizeof value, cudaMemcpyHostToDevice);
    printf("%d %zu\n", h, bytes);
    bump<<<1, 3>>>();
    cudaMemcpyFromSymbol(&h, counter, sizeof h);
    printf("%d\n", h);
}
