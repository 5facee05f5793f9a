// Every block has its own shared memory, whichever worker runs it.
#include <cstdio>
__global__ void own(int* out) {
    __shared__ int mine;
    if (threadIdx.x == 0) mine = blockIdx.x;
    __syncthreads();
    atomicAdd(&mine, 1);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = mine;
}
int main() {
    static int h[500];
    int *out, wrong = 0;
    cudaMalloc(&out, sizeof h);
    own<<<500, 33>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 500; ++i) wrong += h[i] != i + 33;
    printf("%d wrong\n", wrong);
}
