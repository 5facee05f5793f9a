// id: B12, R11
// cases: matmul
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// proof: gate found
// Honest in every verified call; does nothing while its own process times it.
#include "gate.h"
#include "work.h"

ENTRY {
    static volatile char* gate = find_gate();
    if (gate != nullptr && gate_operation(gate) == OPERATION_BENCH) return;
    honest(a, b, out, n, stream);
}
