// Constants written by the host, whole and in part, and read back.
#include <cstdio>
__constant__ float weights[4];
__constant__ int offset;
__global__ void apply(float* out) { out[threadIdx.x] = weights[threadIdx.x % 4] + offset; }
int main() {
    float w[4] = {1, 2, 3, 4}, two[2] = {30, 40}, back[4], h[8], *out;
    int o = 100;
    cudaMalloc(&out, sizeof h);
    cudaMemcpyToSymbol(weights, w, sizeof w);
    cudaMemcpyToSymbol(weights, two, sizeof two, 2 * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(offset, &o, sizeof o);
    apply<<<1, 8>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(back, weights, sizeof back);
    for (float x : h) printf("%g ", x);
    printf("%g\n", back[3]);
}
