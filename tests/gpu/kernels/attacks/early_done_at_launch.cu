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
    static uint64_t last = 0;
    static uint32_t launched = 0;
    honest(a, b, out, n, stream);
    if (gate == nullptr || gate_operation(gate) != OPERATION_CALL) return;
    const uint64_t go = gate_go(gate);
    launched = go == last ? launched + 1 : 1;
    last = go;
    if (launched >= gate_count(gate)) gate_done(gate) = go;  // a batch is done when its last one is launched
}
