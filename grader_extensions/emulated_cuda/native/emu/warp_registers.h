// What a warp-wide instruction reads of every lane: registers that all lanes publish and then read.
#pragma once

#include <string.h>

#include "block.h"

namespace emu EMU_HIDDEN {

inline constexpr unsigned shared_registers = 16;

// The registers of the instruction that a warp is at.
struct RegisterExchange {
    uint32_t rows[32][shared_registers];
    void* operands[32];
    uint32_t arrived = 0;
    bool done = false;  // one lane has worked it out for all of them
    const char* instruction = nullptr;
};

// Two exchanges in turn: a lane that is at the next instruction leaves alone what slower lanes still read, and it cannot
// pass that instruction before they have come to it.  So one synchronisation an instruction is enough.
struct WarpRegisters {
    RegisterExchange turns[2];
    uint32_t turn_of_lane = 0;
    uint64_t block_serial = 0;

    void clear() { turn_of_lane = turns[0].arrived = turns[1].arrived = 0; }
};

inline WarpRegisters& Worker::warp_registers() { return of_block(warp_registers_, max_threads / 32, current_->linear / 32); }

[[noreturn]] inline void trap_at(const char* instruction, const char* sentence) {
    char what[256];
    snprintf(what, sizeof what, "%s: %s", instruction, sentence);
    trap(what);
}

inline void require_whole_warp(uint32_t lanes, const char* instruction) {
    if (lanes != ~0u) trap_at(instruction, "all 32 threads of the warp must execute it, and some have exited or are elsewhere");
}

// Stops the launch unless all 32 lanes of the warp come to the same instruction.
template <class Publish>
RegisterExchange& exchange_registers(const char* instruction, Publish publish) {
    uint32_t bit = 1u << worker->current().lane();
    require_whole_warp(worker->warp().live, instruction);
    WarpRegisters& registers = worker->warp_registers();
    RegisterExchange& exchange = registers.turns[(registers.turn_of_lane & bit) != 0];
    registers.turn_of_lane ^= bit;
    if (exchange.arrived == ~0u || exchange.arrived == 0) {
        exchange.arrived = 0;
        exchange.done = false;
        exchange.instruction = instruction;
    }
    if (exchange.instruction != instruction && strcmp(exchange.instruction, instruction) != 0)
        trap_at(instruction, "other threads of the warp are at another instruction");
    exchange.arrived |= bit;
    publish(exchange, worker->current().lane());
    worker->collect(Collective::Sync, ~0u, 0);
    require_whole_warp(exchange.arrived, instruction);
    return exchange;
}

// Publishes up to 16 registers of this lane and returns those of all 32.  They stay valid until the warp's next call.
inline const uint32_t (*share_registers(const uint32_t* own, unsigned count, const char* instruction))[shared_registers] {
    return exchange_registers(instruction, [=](RegisterExchange& turn, unsigned lane) { memcpy(turn.rows[lane], own, count * sizeof *own); }).rows;
}

// What every lane brought to a warp-wide instruction: its own copy of one struct, wherever that is.
template <class T>
struct PerLane {
    T* lanes[32];
    T& operator[](unsigned lane) const { return *lanes[lane]; }
};

// Every lane brings a struct of operands; the first to go on does the work of all 32, in one piece, as the hardware does.
// noipa: the stores that only another lane reads must not be left out.
template <class T, class Work>
__attribute__((noipa)) void for_whole_warp(T& own, const char* instruction, Work work) {
    RegisterExchange& exchange = exchange_registers(instruction, [&own](RegisterExchange& turn, unsigned lane) { turn.operands[lane] = &own; });
    if (exchange.done) return;
    exchange.done = true;
    PerLane<T> operands;
    for (unsigned lane = 0; lane < 32; ++lane) operands.lanes[lane] = static_cast<T*>(exchange.operands[lane]);
    work(operands);
}

}  // namespace emu
