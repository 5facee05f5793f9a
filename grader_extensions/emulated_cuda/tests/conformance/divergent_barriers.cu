// Barriers in a loop whose bounds differ per warp: it ends, as on the device, whatever it computes.
#include <cstdio>
__global__ void uneven(int* out) {
    int warp = threadIdx.x / 32;
    for (int i = 0; i <= warp; ++i) __syncthreads();
    out[threadIdx.x] = warp;
}
int main() {
    int h[128], *out;
    cudaMalloc(&out, sizeof h);
    uneven<<<1, 128>>>(out);
    cudaError_t ended = cudaDeviceSynchronize();
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s %d %d\n", cudaGetErrorName(ended), h[0], h[127]);
}
