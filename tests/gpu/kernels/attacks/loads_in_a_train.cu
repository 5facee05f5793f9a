// id: C11
// cases: triad
// expect: ACCEPTED no gain
// from: originals/raw.cu
// proof: loaded in a train
// Launches a function for the first time in the middle of a train, which is held back then: CUDA loads it at that launch, and loading may wait
// for the device. It must not hang, and the kernel is right.
#include "gate.h"
#include "work.h"

template <int NUMBER>
__global__ void late(float* out, int64_t n) {
    if (n < 0) out[NUMBER] = NUMBER;
}

ENTRY {
    static volatile char* gate = find_gate();
    static uint64_t last = 0;
    static int train = 0;
    const TrainRun run = next_run(gate);
    honest(a, b, out, n, stream);
    if (run.count < 3 || run.index != run.count / 2 || run.go == last) return;
    last = run.go;
    if (train == 0) late<0><<<1, 1, 0, stream>>>(out, n);
    if (train == 2) late<1><<<1, 1, 0, stream>>>(out, n);
    if (train == 4) late<2><<<1, 1, 0, stream>>>(out, n);
    if (++train == 5) fprintf(stderr, "loaded in a train\n");
}
