// How often each basic block of the code was run by the threads of counted blocks: g++ calls the hook at the start of each, under
// -fsanitize-coverage=trace-pc.  `sanitizer_flops.py` knows from the library how many floating-point operations lie in it.
#pragma once

#include "counts.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

inline constexpr unsigned basic_block_limit = 2048, basic_block_slots = 8192, basic_blocks_per_line = 64;

struct BasicBlockCount {
    uint32_t place;
    uint64_t runs;
};
struct BasicBlocks {
    BasicBlockCount slots[basic_block_slots];  // by place, with open addressing
    unsigned count;
};
inline constinit BasicBlocks basic_blocks{};

EMU_RAW inline __attribute__((noinline)) void count_basic_block(uint32_t place) {
    if (clock.self == Clock::host) return;
    for (uint32_t at = place * 0x9e3779b1u >> 19;; ++at) {
        BasicBlockCount& slot = basic_blocks.slots[at % basic_block_slots];
        if (slot.place != place) {
            if (slot.place) continue;
            if (basic_blocks.count == basic_block_limit) return void(counts.partial = true);
            slot.place = place;
            ++basic_blocks.count;
        }
        ++slot.runs;
        return;
    }
}

// Appends all of them, some to a line; later lines replace earlier ones.
EMU_COLD inline void write_basic_blocks(int file) {
    for (unsigned at = 0; at < basic_block_slots;) {
        JsonLine line;
        line.put("{\"kind\":\"basic_blocks\",\"runs\":[");
        for (unsigned written = 0; at < basic_block_slots && written < basic_blocks_per_line; ++at) {
            const BasicBlockCount& slot = basic_blocks.slots[at];
            if (!slot.place) continue;
            if (written++) line.put(",");
            line.put("["), line.number(slot.place), line.put(","), line.number(slot.runs), line.put("]");
        }
        line.put("]}\n");
        if (write(file, line.text, line.length) < 0) return;
    }
}

}  // namespace sanitizer
}  // namespace emu

extern "C" __attribute__((weak, used, visibility("hidden"), noinline)) EMU_RAW void __sanitizer_cov_trace_pc() {
    if (emu::sanitizer::clock.counts) [[unlikely]]
        emu::sanitizer::count_basic_block(emu::sanitizer::place_of(__builtin_extract_return_addr(__builtin_return_address(0))));
}
