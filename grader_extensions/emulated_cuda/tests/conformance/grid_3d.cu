// Three-dimensional grids and blocks: every built-in index reaches its place.
#include <cstdio>
__global__ void mark(int* out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
int main() {
    dim3 grid(2, 3, 4), block(5, 2, 3);
    const int n = 24 * 30;
    int h[n], *d, wrong = 0;
    cudaMalloc(&d, sizeof h);
    mark<<<grid, block>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; ++i) wrong += h[i] != i / 30 * 1000 + i % 30;
    printf("%d wrong, last %d\n", wrong, h[n - 1]);
}
