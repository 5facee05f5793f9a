// Launches and kernels that macros write, with pasted names and several lines.
#include <cstdio>
#define DEFINE(name, op)                                  \
    __global__ void name##_kernel(int* x, int by) {       \
        __shared__ int first;                             \
        if (threadIdx.x == 0) first = by;                 \
        __syncthreads();                                  \
        x[threadIdx.x] = x[threadIdx.x] op first;         \
    }
#define LAUNCH(kernel, threads, ...)                      \
    do {                                                  \
        kernel<<<1, threads>>>(__VA_ARGS__);              \
        cudaError_t error = cudaGetLastError();           \
        if (error != cudaSuccess) printf("%s: %s\n", #kernel, cudaGetErrorName(error)); \
    } while (0)
#define RUN(name, x, by) name##_kernel<<<1, 32>>>(x, by)
DEFINE(add, +)
DEFINE(times, *)
template <int N>
__global__ void plus(int* x) {
    x[threadIdx.x] += N;
}
int main() {
    int h[32], *x;
    cudaMalloc(&x, sizeof h);
    cudaMemset(x, 0, sizeof h);
    LAUNCH(add_kernel, 32, x, 5);
    RUN(times, x, 7);
    LAUNCH(plus<4>, 16, x);
    LAUNCH(plus<4>, 5000, x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d\n", h[0], h[31]);
}
