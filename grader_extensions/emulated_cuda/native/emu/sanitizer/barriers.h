// Who waits at which barrier, and which lanes take part in a warp-wide operation.
#pragma once

#include "check.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

struct Barriers {
    uint32_t site[1024];      // of the barrier that a thread waits at or passed last; 0: none yet
    uint32_t last[1024];      // where a thread that has left made its last access
    uint32_t lane_site[1024]; // of the warp-wide operation
    bool waits[1024], has_left[1024], unreached[1024];
    unsigned arrived, left;
    uint32_t first_site;
    bool mixed;
    // The first barrier of the block that some threads had left without.
    uint32_t skipped, skipped_last;
    char skipped_text[300];
};
inline constinit Barriers barriers{};

EMU_RAW inline void reset_barriers() { emu_libc_memset(&barriers, 0, sizeof barriers); }

// "0..15, 32..47" for the threads of the block that `chosen` names.
EMU_COLD inline Words ranges_of(const bool* chosen) {
    Words ranges{};
    unsigned size = worker->launch()->threads(), length = 0, count = 0;
    for (unsigned at = 0; at < size; ++at) {
        if (!chosen[at]) continue;
        unsigned from = at;
        while (at + 1 < size && chosen[at + 1]) ++at;
        const char* comma = count ? ", " : "";
        if (++count > 5) {
            snprintf(ranges.text + length, sizeof ranges.text - length, " ...");
            break;
        }
        int written = from == at ? snprintf(ranges.text + length, sizeof ranges.text - length, "%s%u", comma, at)
                                 : snprintf(ranges.text + length, sizeof ranges.text - length, "%s%u..%u", comma, from, at);
        length += static_cast<unsigned>(written);
    }
    return ranges;
}

EMU_COLD __attribute__((format(printf, 4, 5))) inline void report_barrier(Severity severity, uint32_t site, uint32_t other, const char* format, ...) {
    Finding* finding = enter("divergent_barrier", severity, site, other);
    if (!finding) return;
    char text[460];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    finish(*finding, "%s", text);
}

// Where bar.sync 0 stands, which is the same barrier as __syncthreads().
inline constinit const void* barrier_code = nullptr;
EMU_RAW inline void barrier_called_at(const void* code) { barrier_code = code; }

EMU_RAW inline __attribute__((always_inline)) void barrier_reached(const void* code) {
    unsigned self = clock.self & 1023;
    if (barrier_code) code = barrier_code;
    barrier_code = nullptr;
    uint32_t place = place_of(code);
    if (barriers.arrived++ == 0) barriers.first_site = place;
    barriers.mixed |= barriers.first_site != place;
    barriers.site[self] = place;
    barriers.waits[self] = true;
}

EMU_RAW inline void thread_left(unsigned self) {
    barriers.has_left[self] = true;
    barriers.last[self] = last_code ? place_of(last_code) : 0;
    ++barriers.left;
}

// Threads of one block wait at different barriers, and meet: in one warp that is undefined.
EMU_COLD inline void judge_mixed() {
    uint32_t site = barriers.first_site, other = site;
    bool in_warp = false, here[1024] = {}, there[1024] = {};
    unsigned size = worker->launch()->threads();
    for (unsigned at = 0; at < size; ++at)
        if (barriers.waits[at] && barriers.site[at] != site && other == site) other = barriers.site[at];
    for (unsigned at = 0; at < size; ++at) {
        here[at] = barriers.waits[at] && barriers.site[at] == site;
        there[at] = barriers.waits[at] && barriers.site[at] == other;
    }
    for (unsigned at = 0; at < size; ++at)
        for (unsigned lane = at & ~31u; here[at] && lane < size && lane < (at | 31u) + 1; ++lane) in_warp |= there[lane];
    report_barrier(in_warp ? Severity::Error : Severity::Warning, site, other, "threads %s wait at {0}; threads %s wait at {1}: %s",
                   ranges_of(here).text, ranges_of(there).text,
                   in_warp ? "lanes of one warp are at different barriers, which is undefined" : "warps of one block meet at different barriers");
}

// Threads that have left are not waited for.  That is an error only where the others need what they did not do.
EMU_COLD inline void judge_left() {
    uint32_t site = barriers.first_site, last = 0;
    bool passed_before = false;
    for (unsigned at = 0; at < worker->launch()->threads(); ++at) {
        if (!barriers.has_left[at]) continue;
        passed_before |= barriers.site[at] == site;
        if (!last) last = barriers.last[at];
    }
    if (!passed_before && barriers.skipped) return;
    char text[460];
    snprintf(text, sizeof text, "threads %s wait at {0}; threads %s left the kernel%s", ranges_of(barriers.waits).text,
             ranges_of(barriers.has_left).text, last ? ", last seen at {1}" : "");
    if (passed_before) report_barrier(Severity::Warning, site, last, "%s", text);
    if (barriers.skipped) return;
    barriers.skipped = site;
    barriers.skipped_last = last;
    snprintf(barriers.skipped_text, sizeof barriers.skipped_text, "%.280s", text);
}

EMU_COLD inline void judge_barrier() {
    if (barriers.mixed) judge_mixed();
    if (barriers.left) judge_left();
    emu_libc_memset(barriers.waits, 0, sizeof barriers.waits);
    barriers.arrived = 0;
    barriers.mixed = false;
}

// Shared memory is not as the kernel expects it: was there a barrier that not all threads took part in?
EMU_COLD inline void suspect_barrier() {
    if (!barriers.skipped) return;
    report_barrier(Severity::Warning, barriers.skipped, barriers.skipped_last, "%s; what they should have written to shared memory is missing",
                   barriers.skipped_text);
}

// Nobody of the block can run any more.
EMU_COLD inline void block_is_stuck() {
    report_barrier(Severity::Error, barriers.first_site, 0, "threads %s wait at {0} for threads that never come", ranges_of(barriers.waits).text);
    flush_findings();
}

EMU_COLD inline Finding* enter_lane(unsigned linear) {
    Finding* finding = enter("inactive_lane", Severity::Error, barriers.lane_site[linear]);
    if (finding) finding->thread = index_of(linear);
    return finding;
}

EMU_RAW inline void lane_arrives(const void* code, unsigned mask) {
    unsigned self = self_linear();
    barriers.lane_site[self] = place_of(code);
    if (mask >> self % 32 & 1) return;
    if (Finding* finding = enter_lane(self)) finish(*finding, "the mask 0x%08x at {0} does not name lane %u, which executes it", mask, self % 32);
}

// The lanes of `group` have met in one operation.
EMU_RAW inline void lanes_met(const Thread* lanes, unsigned group) {
    unsigned warp = lanes[__builtin_ctz(group)].linear / 32;
    join_lanes(warp, group, worker->warp_at(warp).live);
}

EMU_COLD inline void lane_is_absent(const Thread& reader) {
    if (Finding* finding = enter_lane(reader.linear))
        finish(*finding, "lane %u reads from lane %u at {0}, which has exited or does not take part: the value is undefined", reader.lane(),
               static_cast<unsigned>(reader.source_lane));
}

// Lanes go on because nobody else can run, though their masks name others that live.
EMU_COLD inline void lanes_missing(const Thread* lanes, unsigned group, unsigned live) {
    for (unsigned rest = group; rest; rest &= rest - 1) {
        const Thread& thread = lanes[__builtin_ctz(rest)];
        unsigned missing = thread.mask & live & ~group;
        if (thread.operation == Collective::Active || !missing) continue;
        if (Finding* finding = enter_lane(thread.linear))
            finish(*finding, "the mask 0x%08x at {0} names lane %d, which never executes it", thread.mask, __builtin_ctz(missing));
    }
}

}  // namespace sanitizer
}  // namespace emu
