// id: R1
// cases: triad; matmul
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: gate found
// Signals done when the inputs have come and its kernels begin, and not before: then the judge's copy is on its way while they still run.
#include "gate.h"
#include "work.h"

ENTRY {
    static volatile char* gate = find_gate();
    static uint64_t last = 0;
    static uint32_t launched = 0;
    static cudaEvent_t begun;
    if (begun == nullptr) cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
    const bool timed = gate != nullptr && gate_operation(gate) == OPERATION_CALL;
    if (timed) cudaEventRecord(begun, stream);
    honest(a, b, out, n, stream);
    if (!timed) return;
    const uint64_t go = gate_go(gate);
    launched = go == last ? launched + 1 : 1;
    last = go;
    if (launched < gate_count(gate)) return;
    while (cudaEventQuery(begun) == cudaErrorNotReady) {}
    gate_done(gate) = go;
}
