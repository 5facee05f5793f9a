// Lambdas handed to kernels.  nvcc: --extended-lambda
#include <cstdio>
template <class F>
__global__ void for_each(int n, F f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) f(i);
}
int main() {
    int h[100], *x, by = 3;
    cudaMalloc(&x, sizeof h);
    for_each<<<2, 64>>>(100, [=] __device__(int i) { x[i] = i * by; });
    auto add = [x] __host__ __device__(int i) { x[i] += 1; };
    for_each<<<2, 64>>>(50, add);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", h[1], h[49], h[99]);
}
