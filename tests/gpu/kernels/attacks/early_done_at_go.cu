// id: R1
// cases: triad; matmul
// expect: ACCEPTED no gain | WRONG_ANSWER | DISQUALIFIED
// from: originals/raw.cu
// proof: gate found
// A thread answers every call the moment it is made; launch, kernel and all that the shim does come after `done`.
#include <thread>

#include "gate.h"
#include "work.h"

static void answer_at_once(volatile char* gate) {
    for (uint64_t last = gate_go(gate);;) {
        const uint64_t go = gate_go(gate);
        if (go == last) continue;
        last = go;
        if (gate_operation(gate) == OPERATION_CALL) gate_done(gate) = go;
    }
}

__attribute__((constructor)) static void at_load() {
    if (volatile char* gate = find_gate()) std::thread(answer_at_once, gate).detach();
}

ENTRY { honest(a, b, out, n, stream); }
