// The two halves of a warp do different warp-wide work at the same time.
#include <cstdio>
__global__ void halves(int* out) {
    int t = threadIdx.x, v = t;
    if (t < 16) {
        for (int o = 8; o; o /= 2) v += __shfl_xor_sync(0x0000ffff, v, o);
    } else {
        for (int o = 1; o < 16; o *= 2) v = max(v, __shfl_xor_sync(0xffff0000, v, o));
    }
    out[t] = v;
}
int main() {
    int h[32], *out;
    cudaMalloc(&out, sizeof h);
    halves<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", h[0], h[15], h[16], h[31]);
}
