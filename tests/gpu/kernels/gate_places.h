// What the gate said of a run's places when it was placed: later calls wipe them.
#include <atomic>

#include "gate.h"

struct Places {
    uint64_t offsets[3] = {0, 0, 0};  // of two inputs and an output: of the second run of a train, or of the only one
    uint64_t first = 0;               // of the first input of the first run
    bool known = false;
    std::atomic<uint64_t> go{0};  // the last call that was dealt with
};

// Waits for the call after `last`, and remembers where it places a launch. Returns its operation.
[[maybe_unused]] static inline uint32_t next_call(volatile char* gate, uint64_t& last, Places& places) {
    while (gate_go(gate) == last) {}
    last = gate_go(gate);
    const uint32_t operation = gate_operation(gate);
    if (operation == OPERATION_PLACE) {
        const uint64_t shift = gate_count(gate) > 1 ? gate_stride(gate) : 0;
        for (int slot = 0; slot < 3; ++slot) places.offsets[slot] = gate_slot(gate, slot) + shift;
        places.first = gate_slot(gate, 0);
        places.known = gate_done(gate) != last;  // after the answer the next call may wipe what is read here
    }
    return operation;
}

[[maybe_unused]] static inline void say_once(const char* what) {
    static bool said = false;
    if (!said) fprintf(stderr, "%s\n", what);
    said = true;
}
