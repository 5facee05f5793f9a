// A host function in a stream runs after the work before it.
#include <cstdio>
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
void report(void* data) { printf("callback %d\n", *static_cast<int*>(data)); }
int main() {
    int *x, h[4], tag = 42;
    cudaMalloc(&x, sizeof h);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    fill<<<1, 4, 0, stream>>>(x);
    cudaLaunchHostFunc(stream, report, &tag);
    cudaStreamSynchronize(stream);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d\n", h[3]);
}
