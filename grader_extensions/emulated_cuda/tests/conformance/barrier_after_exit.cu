// A barrier does not wait for threads that have returned.
#include <cstdio>
__global__ void early(int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (threadIdx.x >= 40) return;
    atomicAdd(&sum, threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = sum;
}
int main() {
    int h[40], *out;
    cudaMalloc(&out, sizeof h);
    early<<<1, 128>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[39], cudaGetErrorString(cudaDeviceSynchronize()));
}
