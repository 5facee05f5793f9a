// A graph captured from a stream runs when launched, as often as launched, and not before.
#include <cstdio>
__global__ void add(int* x, int by) { x[threadIdx.x] += by; }
int main() {
    int h[8], *x;
    cudaMalloc(&x, sizeof h);
    cudaMemset(x, 0, sizeof h);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 1; i <= 4; ++i) add<<<1, 8, 0, stream>>>(x, i);
    cudaStreamEndCapture(stream, &graph);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d ", h[0]);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 3; ++i) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d\n", h[7]);
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
}
