// id: C7
// cases: triad
// expect: WRONG_ANSWER
// from: originals/raw.cu
// Replays the graph that was captured in the first call, at the addresses of that call.
#include "work.h"

ENTRY {
    static cudaGraphExec_t replay = nullptr;
    static cudaStream_t side = nullptr;
    if (replay == nullptr) {
        cudaGraph_t graph = nullptr;
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal);
        honest(a, b, out, n, side);
        cudaStreamEndCapture(side, &graph);
        cudaGraphInstantiate(&replay, graph, 0);
    }
    cudaGraphLaunch(replay, stream);
}
