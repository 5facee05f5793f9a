// Launches written every way: through pointers, over several lines, inside lambdas and expressions, and by cudaLaunchKernel.
#include <cstdio>
__global__ void add(int* x, int by) { x[threadIdx.x] += by; }
struct Runner {
    int threads;
    void operator()(int* x) const { add<<<1, threads>>>(x, 10); }
};
int main() {
    int h[32], *x, by = 10000;
    cudaMalloc(&x, sizeof h);
    cudaMemset(x, 0, sizeof h);
    void (*pointer)(int*, int) = add;
    pointer<<<1, 32>>>(x, 1);
    (*pointer)<<<dim3(1), dim3(32, 1, 1), 0, 0>>>(x, 2);
    add
        <<<
            1,
            32
        >>>
        (
            x,
            3
        );
    Runner{32}(x);
    auto run = [&](int value) { add<<<1, 32>>>(x, value); };
    run(100);
    if (h) add<<<1, {32}>>>(x, 1000);
    void* args[] = {&x, &by};
    cudaLaunchKernel((void*)add, dim3(1), dim3(32), args, 0, nullptr);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d\n", h[0], h[31]);
}
