// printf in a kernel, from one thread at a time.
#include <cstdio>
__global__ void speak(float x) {
    for (int i = 0; i < blockDim.x; ++i) {
        if (threadIdx.x == i) printf("block %d thread %d: %.2f %s\n", blockIdx.x, threadIdx.x, x * i, i % 2 ? "odd" : "even");
        __syncthreads();
    }
}
int main() {
    speak<<<1, 3>>>(1.5f);
    cudaDeviceSynchronize();
}
