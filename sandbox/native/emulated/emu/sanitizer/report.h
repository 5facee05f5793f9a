// Turns what an access did wrong into a finding with one sentence.  In messages {0} and {1} stand for the places' source lines.
#pragma once

#include "order.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

EMU_RAW inline unsigned self_linear() { return clock.self & 1023; }
EMU_RAW inline Index index_of(unsigned linear) {
    unsigned x = blockDim.x ? blockDim.x : 1, y = blockDim.y ? blockDim.y : 1;
    return {linear % x, linear / x % y, linear / x / y};
}

EMU_COLD inline void add_context(Finding& finding) {
    snprintf(finding.kernel, sizeof finding.kernel, "%.150s", worker->launch()->name);
    finding.block = {blockIdx.x, blockIdx.y, blockIdx.z};
    finding.thread = index_of(self_linear());
}

EMU_RAW inline const char* space_name(const Region* region) {
    return !region ? "" : region->space == Space::Shared ? "shared" : "global";
}

// The static variables of the running kernel, which lie in shared regions.
struct Variable {
    uintptr_t begin, end;
    const char* name;
};
struct Variables {
    Variable list[64];
    unsigned count;
};
inline constinit Variables variables{};

EMU_RAW inline const Variable* variable_at(uintptr_t address) {
    for (unsigned i = 0; i < variables.count; ++i)
        if (variables.list[i].begin <= address && address < variables.list[i].end) return &variables.list[i];
    return nullptr;
}
EMU_RAW inline void name_variable(uintptr_t begin, size_t bytes, const char* name) {
    if (variables.count == 64 || variable_at(begin)) return;
    variables.list[variables.count++] = {begin, begin + bytes, name};
}

// What an address belongs to.
struct Memory {
    const Region* region;
    const char* name;
    uintptr_t begin, end;
};
EMU_COLD inline Memory memory_of(const Region* region, uintptr_t address) {
    if (!region) return {nullptr, "", 0, 0};
    if (const Variable* variable = variable_at(address)) return {region, variable->name, variable->begin, variable->end};
    // Behind a variable, or before it.
    for (unsigned i = 0; i < variables.count; ++i)
        if (variables.list[i].end == region->end && address >= region->end) return {region, variables.list[i].name, variables.list[i].begin, region->end};
    return {region, region->name, region->begin, region->end};
}

EMU_COLD inline void add_memory(Finding& finding, const Memory& memory) {
    const Region* region = memory.region;
    if (!region) return;
    if (memory.name[0]) snprintf(finding.memory, sizeof finding.memory, "%.47s (%s)", memory.name, space_name(region));
    else snprintf(finding.memory, sizeof finding.memory, "%s", space_name(region));
}

struct Words {
    char text[96];
};
EMU_COLD inline Words describe(const Memory& memory) {
    Words words;
    const Region* region = memory.region;
    if (!region) snprintf(words.text, sizeof words.text, "memory");
    else if (memory.name[0]) snprintf(words.text, sizeof words.text, "'%.47s' (%s memory)", memory.name, space_name(region));
    else if (region->space == Space::Shared) snprintf(words.text, sizeof words.text, "shared memory");
    else snprintf(words.text, sizeof words.text, "an allocation of %zu bytes", static_cast<size_t>(region->end - region->begin));
    return words;
}

EMU_COLD inline Memory memory_at(uintptr_t address) {
    uintptr_t distance = 0;
    const Region* region = nearest_region(address, &distance);
    return memory_of(distance == 0 ? region : nullptr, address);
}

inline constexpr uintptr_t near_bytes = uintptr_t{1} << 32;  // what is further away has nothing to do with an address

EMU_COLD inline void write_out_of_bounds(Finding& finding, uintptr_t address, const char* what) {
    add_context(finding);
    uintptr_t distance = 0;
    const Region* region = nearest_region(address, &distance);
    if (region && distance == 0) {  // it begins inside and runs over the end
        address = region->end;
        distance = 1;
    }
    if (!region || distance > near_bytes) {
        snprintf(finding.message, sizeof finding.message, "{0} %s where no memory is allocated", what);
        return finish(finding);
    }
    Memory memory = memory_of(region, address);
    add_memory(finding, memory);
    bool before = address < region->begin;
    snprintf(finding.message, sizeof finding.message, "{0} %s out of bounds, %zu bytes %s of %s", what,
             static_cast<size_t>(before ? distance : distance - 1), before ? "before the begin" : "behind the end", describe(memory).text);
    finish(finding);
}

EMU_COLD inline void report_out_of_bounds(uintptr_t address, unsigned bytes, bool writes, uint32_t place) {
    bool fresh = false;
    Finding* finding = enter("out_of_bounds", Severity::Error, &place, 1, &fresh);
    if (!finding || !fresh) return;
    char what[40];
    snprintf(what, sizeof what, "%s %u bytes", writes ? "writes" : "reads", bytes);
    write_out_of_bounds(*finding, address, what);
}

EMU_COLD inline void report_fault(uintptr_t address, uint32_t place) {
    bool fresh = false;
    Finding* finding = enter("out_of_bounds", Severity::Error, &place, 1, &fresh);
    if (finding && fresh) write_out_of_bounds(*finding, address, "reads or writes");
}

void suspect_barrier();

EMU_COLD inline void report_uninitialised(uintptr_t address, uint32_t place) {
    bool fresh = false;
    Finding* finding = enter("uninitialised_read", Severity::Error, &place, 1, &fresh);
    Memory memory = memory_at(address);
    bool shared = memory.region && memory.region->space == Space::Shared;
    if (shared) suspect_barrier();
    if (!finding || !fresh) return;
    add_context(*finding);
    add_memory(*finding, memory);
    snprintf(finding->message, sizeof finding->message, "{0} reads byte %zu of %s, which nothing has written %s",
             static_cast<size_t>(address - memory.begin), describe(memory).text, shared ? "in this block" : "since it was allocated");
    finish(*finding);
}

EMU_COLD inline void report_read_only(uintptr_t address, uint32_t place) {
    bool fresh = false;
    Finding* finding = enter("out_of_bounds", Severity::Error, &place, 1, &fresh);
    if (!finding || !fresh) return;
    Memory memory = memory_at(address);
    add_context(*finding);
    add_memory(*finding, memory);
    snprintf(finding->message, sizeof finding->message, "{0} writes to %s, which is an input and must not be changed", describe(memory).text);
    finish(*finding);
}

struct Conflict {
    uintptr_t address;
    unsigned bytes;
    uint32_t place, other_place;
    unsigned thread, other_thread;
    bool writes, other_writes, between_blocks, in_warp, is_volatile, with_atomic;
};

EMU_COLD inline void write_race(Finding& finding, const Conflict& conflict, bool same_value) {
    Memory memory = memory_at(conflict.address);
    add_context(finding);
    finding.thread = index_of(conflict.thread);
    add_memory(finding, memory);
    Words where = describe(memory);
    const char* what = conflict.writes ? "written" : "read";
    const char* other = conflict.with_atomic && conflict.other_writes ? "changed by an atomic" : conflict.other_writes ? "written" : "read";
    const char* same = same_value ? " (all write the same value)" : conflict.with_atomic && conflict.writes ? " (one of them by an atomic)" : "";
    if (conflict.between_blocks) {
        snprintf(finding.message, sizeof finding.message,
                 "%s is %s at {0} by one block and %s at {1} by another in the same launch, and nothing orders the two%s", where.text, what,
                 other, same);
        return;
    }
    Index own = index_of(conflict.thread), others = index_of(conflict.other_thread);
    const char* missing = conflict.in_warp ? "no __syncwarp() or __syncthreads()" : "no __syncthreads()";
    if (conflict.thread == conflict.other_thread)
        snprintf(finding.message, sizeof finding.message, "%s is %s at {0} by thread (%u,%u,%u) and %s at {1} by others, with %s between%s",
                 where.text, what, own.x, own.y, own.z, other, missing, same);
    else
        snprintf(finding.message, sizeof finding.message,
                 "%s is %s at {0} by thread (%u,%u,%u) and %s at {1} by thread (%u,%u,%u), with %s between%s", where.text, what, own.x, own.y,
                 own.z, other, others.x, others.y, others.z, missing, same);
}

EMU_COLD inline void report_race(const Conflict& conflict, bool same_value) {
    bool mild = conflict.in_warp || conflict.is_volatile;
    Severity severity = same_value ? Severity::Info : mild ? Severity::Warning : Severity::Error;
    uint32_t places[2] = {conflict.place, conflict.other_place};
    bool fresh = false;
    Finding* finding = enter("race", severity, places, 2, &fresh);
    if (!same_value && !conflict.between_blocks) suspect_barrier();
    if (!finding || !fresh) return;
    write_race(*finding, conflict, same_value);
    finish(*finding);
}

}  // namespace sanitizer
}  // namespace emu
