// One thread an element, the last block partly idle.
#include <cstdio>
__global__ void add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
int main() {
    const int n = 1000;
    float h[n], *a, *b, *c;
    cudaMalloc(&a, sizeof h);
    cudaMalloc((void**)&b, sizeof h);
    cudaMalloc(&c, sizeof h);
    for (int i = 0; i < n; ++i) h[i] = i;
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(b, h, sizeof h, cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    cudaMemcpy(h, c, sizeof h, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float x : h) sum += x;
    printf("%g %g %g\n", h[1], h[999], sum);
    cudaFree(a), cudaFree(b), cudaFree(c);
}
