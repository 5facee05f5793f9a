// A grid-stride loop over more elements than threads.
#include <cstdio>
__global__ void scale(float* x, float by, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)blockDim.x * gridDim.x) x[i] = i * by;
}
int main() {
    const size_t n = 100003;
    float* x;
    cudaMallocManaged(&x, n * sizeof(float));
    scale<<<7, 96>>>(x, 0.5f, n);
    cudaDeviceSynchronize();
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x[i];
    printf("%.1f\n", sum);
    cudaFree(x);
}
