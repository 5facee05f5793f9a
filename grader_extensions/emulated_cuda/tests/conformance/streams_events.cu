// Streams and events: work of one stream in order, waits between streams, elapsed time.
#include <cstdio>
__global__ void add(int* x, int by) { x[threadIdx.x] += by; }
__global__ void multiply(int* x, int by) { x[threadIdx.x] *= by; }
int main() {
    int h[32], *x;
    cudaStream_t a, b;
    cudaEvent_t start, done;
    cudaStreamCreate(&a), cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreate(&start), cudaEventCreate(&done);
    cudaMallocAsync(&x, sizeof h, a);
    cudaMemsetAsync(x, 0, sizeof h, a);
    cudaEventRecord(start, a);
    add<<<1, 32, 0, a>>>(x, 3);
    cudaEventRecord(done, a);
    cudaStreamWaitEvent(b, done, 0);
    multiply<<<1, 32, 0, b>>>(x, 5);
    cudaMemcpyAsync(h, x, sizeof h, cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    float ms = -1;
    cudaEventSynchronize(done);
    cudaError_t timed = cudaEventElapsedTime(&ms, start, done);
    printf("%d %d %s %d\n", h[0], h[31], cudaGetErrorName(timed), ms >= 0);
    cudaFreeAsync(x, a);
    cudaEventDestroy(start), cudaEventDestroy(done), cudaStreamDestroy(a), cudaStreamDestroy(b);
}
