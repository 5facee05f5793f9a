// id: B1
// cases: triad
// expect: WRONG_ANSWER
// from: originals/raw.cu
// proof: knows that it is in a train
// A kernel that knows that it is in a train computes less there: only runs that are alone are verified by others.
#include "gate.h"
#include "work.h"

ENTRY {
    static volatile char* gate = find_gate();
    const TrainRun run = next_run(gate);
    if (run.count > 1) fprintf(stderr, "knows that it is in a train\n");
    honest(a, b, out, run.count > 1 && run.index > 1 ? n / 2 / 4096 * 4096 : n, stream);
}
