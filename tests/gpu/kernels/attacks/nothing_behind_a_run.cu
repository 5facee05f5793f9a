// id: R1, R2
// cases: triad
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: ended a run itself
// Behind each run of a train its process has the next one waiting, which costs 2 us until the GPU goes back to the judge. This one writes the
// number of a run itself and returns only when the run has ended: nothing waits behind it. The judge goes on after 2 ms a run.
#include "finished.h"
#include "gate.h"
#include "wait.h"
#include "work.h"

__global__ void finish(volatile unsigned long long* place, unsigned long long number) {
    *place = number;
    __threadfence_system();
}

ENTRY {
    static volatile char* gate = find_gate();
    static volatile unsigned long long* finished = find_finished(out);
    const TrainRun run = next_run(gate);
    honest(a, b, out, n, stream);
    if (run.go == 0 || finished == nullptr) return;
    finish<<<1, 1, 0, stream>>>(finished, run.go + run.index);
    cudaStreamSynchronize(stream);
    spin_us(50);
    if (run.count > 1) fprintf(stderr, "ended a run itself\n");
}
