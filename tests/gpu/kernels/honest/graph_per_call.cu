// twin of: stale_graph
// cases: triad
// expect: ACCEPTED
// A CUDA graph, captured in every call and put in the place of the last one.
#include "work.h"

ENTRY {
    static cudaGraphExec_t replay = nullptr;
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal);
    honest(a, b, out, n, side);
    cudaStreamEndCapture(side, &graph);
    cudaGraphExecUpdateResultInfo updated = {};
    if (replay == nullptr || cudaGraphExecUpdate(replay, graph, &updated) != cudaSuccess) {
        if (replay != nullptr) cudaGraphExecDestroy(replay);
        cudaGetLastError();
        cudaGraphInstantiate(&replay, graph, 0);
    }
    cudaGraphDestroy(graph);
    cudaGraphLaunch(replay, stream);
}
