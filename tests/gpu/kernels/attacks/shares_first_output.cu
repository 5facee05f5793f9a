// id: A6, B8
// cases: triad
// expect: WRONG_ANSWER
// from: originals/raw.cu
// proof: shares the first output
// Work shared between the runs of a train: the first computes, and the others copy what it computed.
#include "gate.h"
#include "work.h"

ENTRY {
    static volatile char* gate = find_gate();
    static const float* first = nullptr;
    const TrainRun run = next_run(gate);
    if (run.index == 0) {
        first = out;
        return honest(a, b, out, n, stream);
    }
    cudaMemcpyAsync(out, first, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    fprintf(stderr, "shares the first output\n");
}
