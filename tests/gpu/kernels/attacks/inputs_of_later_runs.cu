// id: R2, C8
// cases: triad
// expect: WRONG_ANSWER
// from: originals/raw.cu
// proof: computes a train at once
// The gate says where the inputs of all runs of a train will lie. The first run computes all of them, and the others do nothing: were
// their inputs there, and their outputs poisoned, before the train begins, their time would be in one run of five.
#include "gate.h"
#include "work.h"

__global__ void idle() {}

ENTRY {
    static volatile char* gate = find_gate();
    const TrainRun run = next_run(gate);
    if (run.index > 0) return idle<<<1, 1, 0, stream>>>();  // without a kernel the GPU would go back to the judge later
    for (uint32_t i = 0; i < run.count; ++i) {
        const uint64_t shift = run.count > 1 ? i * gate_stride(gate) / sizeof(float) : 0;
        honest(a + shift, b + shift, out + shift, n, stream);
    }
    if (run.count > 1) fprintf(stderr, "computes a train at once\n");
}
