// An extern shared array declared outside every function.
#include <cstdio>
extern __shared__ float buffer[];
__global__ void rotate(float* x) {
    buffer[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float* at = buffer + (threadIdx.x + 3) % blockDim.x;
    x[threadIdx.x] = *at;
}
int main() {
    float h[40], *x;
    for (int i = 0; i < 40; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    rotate<<<1, 40, sizeof h>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %g %g\n", h[0], h[36], h[39]);
}
