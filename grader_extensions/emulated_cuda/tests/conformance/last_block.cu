// The last block to finish, known by an atomic ticket, adds up the others' results.
#include <cstdio>
__device__ unsigned ticket = 0;
__global__ void two_steps(volatile int* part, int* total) {
    __shared__ bool last;
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, blockIdx.x + threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) {
        part[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&ticket, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int all = 0;
        for (int i = 0; i < gridDim.x; ++i) all += part[i];
        *total = all;
    }
}
int main() {
    int *part, *total, h;
    cudaMalloc(&part, 50 * sizeof(int));
    cudaMalloc(&total, sizeof(int));
    two_steps<<<50, 32>>>(part, total);
    cudaMemcpy(&h, total, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d\n", h);
}
