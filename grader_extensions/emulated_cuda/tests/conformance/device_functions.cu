// Device functions: inline, never inlined, recursive, and shared with the host.
#include <cstdio>
__host__ __device__ inline int square(int x) { return x * x; }
__device__ __noinline__ int twice(int x) { return 2 * x; }
static __device__ __forceinline__ int thrice(int x) { return 3 * x; }
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
template <typename T>
__device__ void swap_values(T& a, T& b) {
    T t = a;
    a = b;
    b = t;
}
__global__ void call(int* out) {
    int a = square(threadIdx.x), b = twice(threadIdx.x) + thrice(1);
    swap_values(a, b);
    out[threadIdx.x] = a * 1000 + b + fibonacci(threadIdx.x);
}
int main() {
    int h[12], *out;
    cudaMalloc(&out, sizeof h);
    call<<<1, 12>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int x : h) printf("%d ", x);
    printf("%d\n", square(9));
}
