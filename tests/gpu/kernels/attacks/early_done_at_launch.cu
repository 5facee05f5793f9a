// id: R1
// cases: triad; matmul
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: gate found
// Signals done as soon as its kernels are launched, before the shim waits for the device: what is left of them would be free.
#include "gate.h"
#include "work.h"

ENTRY {
    static volatile char* gate = find_gate();
    honest(a, b, out, n, stream);
    const TrainRun run = next_run(gate);
    if (run.go != 0 && run.index + 1 == run.count) gate_done(gate) = run.go;  // all of the train is launched
}
