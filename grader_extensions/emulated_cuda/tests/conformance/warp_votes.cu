// Any, all, ballot and the active mask.
#include <cstdio>
__global__ void votes(unsigned* out) {
    int t = threadIdx.x;
    out[t * 5 + 0] = __ballot_sync(0xffffffff, t % 4 == 1);
    out[t * 5 + 1] = __any_sync(0xffffffff, t == 40) != 0;
    out[t * 5 + 2] = __all_sync(0xffffffff, t < 32) != 0;
    out[t * 5 + 3] = __activemask();
    unsigned half = t % 32 < 16 ? 0x0000ffff : 0xffff0000;
    out[t * 5 + 4] = __ballot_sync(half, t % 2);
}
int main() {
    unsigned h[64 * 5], *out;
    cudaMalloc(&out, sizeof h);
    votes<<<1, 64>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int t : {0, 20, 40}) {
        for (int i = 0; i < 5; ++i) printf("%08x ", h[t * 5 + i]);
        printf("\n");
    }
}
