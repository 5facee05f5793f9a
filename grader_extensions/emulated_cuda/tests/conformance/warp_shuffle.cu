// The four shuffles, with and without a width.
#include <cstdio>
__global__ void shuffles(int* out) {
    int lane = threadIdx.x % 32, value = threadIdx.x * 3 + 1;
    int* row = out + threadIdx.x * 8;
    row[0] = __shfl_sync(0xffffffff, value, 5);
    row[1] = __shfl_sync(0xffffffff, value, lane + 1, 8);
    row[2] = __shfl_up_sync(0xffffffff, value, 2);
    row[3] = __shfl_up_sync(0xffffffff, value, 3, 16);
    row[4] = __shfl_down_sync(0xffffffff, value, 4);
    row[5] = __shfl_down_sync(0xffffffff, value, 1, 4);
    row[6] = __shfl_xor_sync(0xffffffff, value, 9);
    row[7] = __shfl_xor_sync(0xffffffff, value, 3, 8);
}
int main() {
    static int h[64 * 8];
    int* out;
    cudaMalloc(&out, sizeof h);
    shuffles<<<1, 64>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int t : {0, 1, 7, 30, 31, 32, 63}) {
        for (int i = 0; i < 8; ++i) printf("%d ", h[t * 8 + i]);
        printf("\n");
    }
}
