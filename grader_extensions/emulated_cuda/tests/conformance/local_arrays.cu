// Arrays private to a thread, large ones too, live across barriers.
#include <cstdio>
__global__ void keep(int* out) {
    int small[8];
    int large[2000];
    for (int i = 0; i < 8; ++i) small[i] = threadIdx.x * 8 + i;
    for (int i = 0; i < 2000; ++i) large[i] = threadIdx.x ^ i;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += small[(i + threadIdx.x) % 8];
    for (int i = 0; i < 2000; ++i) sum += large[(i * 7) % 2000] & 1;
    out[threadIdx.x] = sum;
}
int main() {
    int h[96], *out;
    cudaMalloc(&out, sizeof h);
    keep<<<1, 96>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", h[0], h[1], h[95]);
}
