// problem: scale_add
// why: every call captures its work into a graph, launches it once and throws it away
#include <cstdint>

#include <cuda_runtime.h>

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    cudaStream_t side = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t once = nullptr;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal);
    scale_add<<<static_cast<unsigned>((n + 127) / 128), 128, 0, side>>>(alpha, x, y, out, n);
    cudaStreamEndCapture(side, &graph);
    cudaGraphInstantiate(&once, graph, 0);
    cudaGraphLaunch(once, stream);
    cudaStreamSynchronize(stream);
    cudaGraphExecDestroy(once);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(side);
}
