// id: R1
// cases: triad
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED | TIME_LIMIT_EXCEEDED
// from: originals/raw.cu
// proof: finished on the device
// As soon as a run of a train has ended, a kernel on a stream that waits for nothing writes the number of the next: the judge, which copies
// that run's inputs meanwhile, would not wait for it.
#include "finished.h"
#include "gate.h"
#include "work.h"

__global__ void push_on(volatile unsigned long long* place, unsigned long long first, unsigned count) {
    long long now, begun;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    unsigned long long seen;
    do {
        seen = *place;
        if (seen >= first && seen + 1 < first + count) *place = seen + 1;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (seen + 1 != first + count && now - begun < 20000000);
}

ENTRY {
    static volatile char* gate = find_gate();
    static volatile unsigned long long* finished = find_finished(out);
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    const TrainRun run = next_run(gate);
    if (finished != nullptr && run.count > 1 && run.index == 0) push_on<<<1, 1, 0, side>>>(finished, run.go, run.count);
    honest(a, b, out, n, stream);
}
