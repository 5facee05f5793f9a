// Launches that cannot be: the kernel does not run, and the error is the device's own.
#include <cstdio>
__global__ void mark(int* x) { *x = 1; }
void show(const char* what, int* x) {
    cudaError_t peeked = cudaPeekAtLastError(), error = cudaGetLastError(), after = cudaGetLastError();
    int h;
    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s: %s (%s), peeked %d, after %d, ran %d\n", what, cudaGetErrorName(error), cudaGetErrorString(error), peeked == error, after, h);
    cudaMemset(x, 0, sizeof h);
}
int main() {
    int* x;
    cudaMalloc(&x, sizeof(int));
    cudaMemset(x, 0, sizeof(int));
    mark<<<1, 1025>>>(x);
    show("1025 threads", x);
    mark<<<1, dim3(64, 32)>>>(x);
    show("2048 threads", x);
    mark<<<0, 32>>>(x);
    show("no blocks", x);
    mark<<<1, 0>>>(x);
    show("no threads", x);
    mark<<<1, dim3(1, 1, 65)>>>(x);
    show("65 deep", x);
    mark<<<dim3(1, 65536), 1>>>(x);
    show("65536 rows of blocks", x);
    mark<<<1, 1, 49153>>>(x);
    show("49153 bytes", x);
    mark<<<1, 1, 49152>>>(x);
    show("49152 bytes", x);
    mark<<<1, 1024>>>(x);
    show("1024 threads", x);
}
