// Lanes with equal values find each other.
#include <cstdio>
__global__ void matches(unsigned* out) {
    int t = threadIdx.x, equal = 0;
    out[t * 4 + 0] = __match_any_sync(0xffffffff, t % 5);
    out[t * 4 + 1] = __match_any_sync(0xffffffff, (double)(t / 10));
    out[t * 4 + 2] = __match_all_sync(0xffffffff, 42, &equal);
    out[t * 4 + 2] += equal;
    __match_all_sync(0xffffffff, t == 3, &equal);
    out[t * 4 + 3] = equal;
}
int main() {
    unsigned h[32 * 4], *out;
    cudaMalloc(&out, sizeof h);
    matches<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int t : {0, 13, 31}) {
        for (int i = 0; i < 4; ++i) printf("%08x ", h[t * 4 + i]);
        printf("\n");
    }
}
