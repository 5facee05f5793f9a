// twin of: stale_graph
// cases: triad
// expect: ACCEPTED
// A CUDA graph, captured in the first call; every call tells its node the addresses of that call.
#include "work.h"

ENTRY {
    static cudaGraphExec_t replay = nullptr;
    static cudaGraphNode_t node = nullptr;
    static cudaKernelNodeParams parameters = {};
    void* arguments[] = {&a, &b, &out, &n};
    if (replay == nullptr) {
        cudaGraph_t graph = nullptr;
        cudaStream_t side = nullptr;
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal);
        honest(a, b, out, n, side);
        cudaStreamEndCapture(side, &graph);
        size_t count = 1;
        cudaGraphGetNodes(graph, &node, &count);
        cudaGraphKernelNodeGetParams(node, &parameters);
        cudaGraphInstantiate(&replay, graph, 0);
        cudaStreamDestroy(side);
    }
    parameters.kernelParams = arguments;
    parameters.extra = nullptr;
    if (cudaGraphExecKernelNodeSetParams(replay, node, &parameters) != cudaSuccess) fprintf(stderr, "the node was not updated\n");
    cudaGraphLaunch(replay, stream);
}
