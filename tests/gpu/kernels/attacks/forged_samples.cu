// id: D5, R11
// cases: triad CLAIM_NS=1000; matmul CLAIM_NS=300000
// expect: ACCEPTED no gain | DISQUALIFIED
// from: originals/raw.cu
// proof: gate found
// A thread answers the request for do_bench itself, with fifty samples of its own making in the gate's page.
#include <thread>

#include "gate.h"
#include "parameters.h"
#include "work.h"

static void forge(volatile char* gate) {
    volatile uint32_t& count = *reinterpret_cast<volatile uint32_t*>(gate + GATE_SAMPLE_COUNT);
    volatile uint64_t* samples = reinterpret_cast<volatile uint64_t*>(gate + GATE_SAMPLES_NS);
    for (uint64_t last = gate_go(gate);; usleep(20)) {
        const uint64_t go = gate_go(gate);
        if (go == last) continue;
        last = go;
        if (gate_operation(gate) != OPERATION_BENCH) continue;
        for (int at = 0; at < 50; ++at) samples[at] = CLAIM_NS + at;
        gate_status(gate) = 0;
        count = 50;
        gate_done(gate) = go;
    }
}

__attribute__((constructor)) static void at_load() {
    if (volatile char* gate = find_gate()) std::thread(forge, gate).detach();
}

ENTRY { honest(a, b, out, n, stream); }
