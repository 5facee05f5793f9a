// id: M2, R1
// cases: triad
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED | TIME_LIMIT_EXCEEDED
// from: originals/raw.cu
// proof: finished on the device
// Overwrites the number for which the judge's stream waits, for 20 ms and as fast as it can, and says done meanwhile: the judge would wait for ever
// if it wrote the number only once.
#include <thread>

#include "finished.h"
#include "gate.h"
#include "wait.h"
#include "work.h"

__global__ void undo(volatile unsigned long long* place) {
    long long now, begun;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do {
        *place = 0;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begun < 20000000);
}

static void answer(volatile char* gate, uint64_t go) {
    spin_us(5000);
    gate_done(gate) = go;
}

ENTRY {
    static volatile char* gate = find_gate();
    static volatile unsigned long long* finished = find_finished(out);
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    honest(a, b, out, n, stream);
    if (gate == nullptr || finished == nullptr || gate_operation(gate) != OPERATION_CALL) return;
    undo<<<1, 1, 0, side>>>(finished);
    std::thread(answer, gate, gate_go(gate)).detach();
}
