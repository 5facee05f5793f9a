// The gate's page as a hostile process finds it in its own memory. gate_layout.h is made from sandbox/protocol/gate.py when a source is read.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "gate_layout.h"

[[maybe_unused]] static inline volatile char* find_gate() {
    FILE* maps = fopen("/proc/self/maps", "r");
    if (maps == nullptr) return nullptr;
    char line[512];
    volatile char* found = nullptr;
    while (found == nullptr && fgets(line, sizeof line, maps) != nullptr) {
        unsigned long begin, end;
        if (strstr(line, "memfd:gate") == nullptr || sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
        found = reinterpret_cast<volatile char*>(begin);
    }
    fclose(maps);
    fprintf(stderr, found == nullptr ? "no gate found\n" : "gate found\n");
    return found;
}

[[maybe_unused]] static inline volatile uint64_t& gate_go(volatile char* gate) { return *reinterpret_cast<volatile uint64_t*>(gate + GATE_GO); }
[[maybe_unused]] static inline volatile uint64_t& gate_done(volatile char* gate) { return *reinterpret_cast<volatile uint64_t*>(gate + GATE_DONE); }
[[maybe_unused]] static inline volatile uint32_t& gate_operation(volatile char* gate) { return *reinterpret_cast<volatile uint32_t*>(gate + GATE_OPERATION); }
[[maybe_unused]] static inline volatile uint32_t& gate_status(volatile char* gate) { return *reinterpret_cast<volatile uint32_t*>(gate + GATE_STATUS); }
[[maybe_unused]] static inline volatile uint32_t& gate_count(volatile char* gate) { return *reinterpret_cast<volatile uint32_t*>(gate + GATE_COUNT); }
[[maybe_unused]] static inline uint64_t gate_stride(volatile char* gate) { return *reinterpret_cast<volatile uint64_t*>(gate + GATE_STRIDE_BYTES); }
// Where a tensor of the first run lies in the arena: the inputs first, then the outputs.
[[maybe_unused]] static inline uint64_t gate_slot(volatile char* gate, int index) {
    return *reinterpret_cast<volatile uint64_t*>(gate + GATE_SLOTS + index * GATE_SLOT_BYTES + GATE_SLOT_OFFSET);
}

// A launch of the call that runs: which of its runs it is for, and how many these are. One of one outside of a call.
struct TrainRun {
    uint64_t go;
    uint32_t index, count;
};

[[maybe_unused]] static inline TrainRun next_run(volatile char* gate) {
    static TrainRun run = {0, 0, 1};
    if (gate == nullptr || gate_operation(gate) != OPERATION_CALL) return {0, 0, 1};
    run = {gate_go(gate), run.go == gate_go(gate) ? run.index + 1 : 0, gate_count(gate)};
    return run;
}
