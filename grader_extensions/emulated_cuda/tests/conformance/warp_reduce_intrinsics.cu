// The integer reductions of a warp in one instruction.
#include <cstdio>
__global__ void reduce(int* out) {
    int t = threadIdx.x;
    out[0 * 32 + t] = __reduce_add_sync(0xffffffff, t - 20);
    out[1 * 32 + t] = __reduce_min_sync(0xffffffff, t - 20);
    out[2 * 32 + t] = __reduce_max_sync(0xffffffff, t - 20);
    out[3 * 32 + t] = __reduce_min_sync(0xffffffff, (unsigned)(t - 20));
    out[4 * 32 + t] = __reduce_and_sync(0xffffffff, (unsigned)t | 0x30);
    out[5 * 32 + t] = __reduce_or_sync(0xffffffff, 1u << t % 7);
    out[6 * 32 + t] = __reduce_xor_sync(0xffffffff, (unsigned)t * 3);
}
int main() {
    int h[7 * 32], *out;
    cudaMalloc(&out, sizeof h);
    reduce<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 7; ++i) printf("%d %d\n", h[i * 32], h[i * 32 + 31]);
}
