// id: R1
// cases: triad PERCENT=0; triad PERCENT=50; triad PERCENT=90; triad PERCENT=99; matmul PERCENT=0
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: finished on the device
// Writes the number for which the judge's stream waits when so much of the output is done: the judge copies the first part while the rest is made.
#include "finished.h"
#include "gate.h"
#include "parameters.h"
#include "work.h"

__global__ void finish(volatile unsigned long long* place, unsigned long long number) {
    *place = number;
    __threadfence_system();
}

ENTRY {
    static volatile char* gate = find_gate();
    static volatile unsigned long long* finished = find_finished(out);
    const TrainRun run = next_run(gate);
    if (run.go == 0 || finished == nullptr) return honest(a, b, out, n, stream);
    const int64_t first = PERCENT == 0 ? 0 : n * PERCENT / 100 / 4096 * 4096;
    if (first > 0) honest(a, b, out, first, stream);
    finish<<<1, 1, 0, stream>>>(finished, run.go + run.index);
    honest(a + first, b + first, out + first, n - first, stream);
}
