// Clocks go forward; fences and sleeps are accepted.
#include <cstdio>
__global__ void time_it(int* out) {
    long long start = clock64();
    __threadfence_block();
    __threadfence();
    __threadfence_system();
    __nanosleep(20);
    long long end = clock64();
    out[threadIdx.x] = end >= start;
}
int main() {
    int h[32], *out, good = 0;
    cudaMalloc(&out, sizeof h);
    time_it<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int x : h) good += x;
    printf("%d\n", good);
}
