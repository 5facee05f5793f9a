// __syncthreads_count, _and and _or give every thread the same answer.
#include <cstdio>
__global__ void votes(int* out) {
    int t = threadIdx.x;
    int count = __syncthreads_count(t % 3 == 0);
    int all = __syncthreads_and(t < 100) != 0, not_all = __syncthreads_and(t < 99) != 0;
    int any = __syncthreads_or(t == 50) != 0, none = __syncthreads_or(t == 500) != 0;
    out[t] = count * 10000 + all * 1000 + not_all * 100 + any * 10 + none;
}
int main() {
    int h[100], *out, same = 0;
    cudaMalloc(&out, sizeof h);
    votes<<<1, 100>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int x : h) same += x == h[0];
    printf("%d %d\n", h[0], same);
}
