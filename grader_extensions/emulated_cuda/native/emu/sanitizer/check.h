// Checks one access against its cells: does the memory exist, was it written, and is the last access by another thread over.
// The first race at each address is found, as in FastTrack (Flanagan and Freund, PLDI 2009).
#pragma once

#include "findings.h"

// What orders two accesses: barriers, __syncwarp, and atomics behind a fence.  Times are those of Clock; an access at time t comes
// before everything that a synchronisation after t has released.  Shuffles and votes order nothing, as CUDA documents.
namespace emu EMU_HIDDEN {
namespace sanitizer {

// How far a fence reaches.  One of the device is one of the block too.
enum Scope : unsigned { block_scope, device_scope, scopes };
struct Fences {
    uint32_t acquired[1024];  // all before this time is ordered before the thread
    uint32_t fenced[1024];    // the thread's last fence
    uint32_t block_acquired, block_fenced, barrier_fenced;
};

struct Order {
    // [thread][lane]: when this thread last met that lane of its own warp; and when the whole warp met.
    uint32_t lanes[1024][32];
    uint32_t warp[32];
    uint32_t warps[32][32];    // when two warps last met at a barrier of their own
    Fences fences[scopes];
    bool lanes_used, warps_used, fences_used;
};
inline constinit Order order{};

// When an address was last written behind a fence, by an atomic or as a volatile.
struct Release {
    uintptr_t address;
    uint32_t times[scopes];
};
inline constexpr unsigned release_slots = 4096;
inline constinit Release releases[release_slots] = {};
inline constinit bool any_release = false;

EMU_RAW inline void reset_order() {
    if (order.lanes_used) emu_libc_memset(order.lanes, 0, sizeof order.lanes);
    if (order.warps_used) emu_libc_memset(order.warps, 0, sizeof order.warps);
    if (order.fences_used) emu_libc_memset(order.fences, 0, sizeof order.fences);
    emu_libc_memset(order.warp, 0, sizeof order.warp);
    order.lanes_used = order.warps_used = order.fences_used = false;
}

EMU_RAW inline bool fences_order(Scope scope, uint32_t time, unsigned self) {
    return time < order.fences[scope].acquired[self] || time < order.fences[scope].block_acquired;
}

// Whether an access of `other` at `time`, in this block since its last barrier, is before what `self` does now.
EMU_RAW inline bool threads_ordered(uint32_t time, unsigned other, unsigned self) {
    if (fences_order(block_scope, time, self)) return true;
    if (other / 32 == self / 32) {
        if (time < order.warp[self / 32]) return true;
        return order.lanes_used && time < order.lanes[self][other % 32];
    }
    return order.warps_used && time < order.warps[self / 32][other / 32];
}

EMU_RAW inline bool blocks_ordered(uint32_t time, unsigned self) { return fences_order(device_scope, time, self); }

// `group` are lanes of a warp that met; `live` are all that it has.
EMU_COLD inline void join_lanes(unsigned warp, unsigned group, unsigned live) {
    uint32_t now = ++clock.time;
    if ((live & ~group) == 0) {
        order.warp[warp] = now;
        return;
    }
    order.lanes_used = true;
    uint32_t joined[32] = {};
    for (unsigned rest = group; rest; rest &= rest - 1)
        for (unsigned lane = 0; lane < 32; ++lane) {
            uint32_t known = order.lanes[warp * 32 + static_cast<unsigned>(__builtin_ctz(rest))][lane];
            if (known > joined[lane]) joined[lane] = known;
        }
    for (unsigned rest = group; rest; rest &= rest - 1) joined[__builtin_ctz(rest)] = now;
    for (unsigned rest = group; rest; rest &= rest - 1)
        emu_libc_memcpy(order.lanes[warp * 32 + static_cast<unsigned>(__builtin_ctz(rest))], joined, sizeof joined);
}

// Warps that met at a barrier which is not the whole block's.
EMU_COLD inline void join_warps(uint32_t group) {
    uint32_t now = ++clock.time;
    order.warps_used = true;
    uint32_t joined[32] = {};
    for (uint32_t rest = group; rest; rest &= rest - 1)
        for (unsigned warp = 0; warp < 32; ++warp)
            if (order.warps[__builtin_ctz(rest)][warp] > joined[warp]) joined[warp] = order.warps[__builtin_ctz(rest)][warp];
    for (uint32_t rest = group; rest; rest &= rest - 1) joined[__builtin_ctz(rest)] = now, order.warp[__builtin_ctz(rest)] = now;
    for (uint32_t rest = group; rest; rest &= rest - 1) emu_libc_memcpy(order.warps[__builtin_ctz(rest)], joined, sizeof joined);
}

EMU_RAW inline void join_block() {
    clock.barrier = ++clock.time;
    if (!order.fences_used) return;
    for (Fences& fences : order.fences) {
        for (uint32_t acquired : fences.acquired)
            if (acquired > fences.block_acquired) fences.block_acquired = acquired;
        fences.barrier_fenced = fences.block_fenced;
    }
}

EMU_COLD inline void fence(Scope reach) {
    if (clock.self == Clock::host) return;
    order.fences_used = true;
    ++clock.time;
    for (unsigned scope = block_scope; scope <= reach; ++scope)
        order.fences[scope].fenced[clock.self] = order.fences[scope].block_fenced = clock.time;
}

EMU_RAW inline Release& release_of(uintptr_t address) { return releases[(address >> 2) * 0x9e3779b1u % release_slots]; }

// Whether an address has been written behind a fence, in this block.
EMU_RAW inline bool is_released(uintptr_t address) {
    return any_release && release_of(address).address == address && release_of(address).times[block_scope] > clock.block;
}

// The last fence before the running thread's writes: its own, or another thread's before a barrier.
EMU_RAW inline uint32_t last_fence(unsigned scope) {
    const Fences& fences = order.fences[scope];
    uint32_t own = fences.fenced[clock.self];
    return own > fences.barrier_fenced ? own : fences.barrier_fenced;
}

// What an atomic or volatile access of `address` learns of others, and tells them.
EMU_RAW inline void synchronise_by(uintptr_t address, bool writes) {
    if (clock.self == Clock::host || (!any_release && !order.fences_used)) return;
    Release& release = release_of(address);
    if (release.address != address) {
        if (!writes || last_fence(block_scope) <= clock.block) return;
        release = {address, {}};
    }
    for (unsigned scope = block_scope; scope < scopes; ++scope) {
        uint32_t& acquired = order.fences[scope].acquired[clock.self];
        uint32_t& released = release.times[scope];
        uint32_t fenced = last_fence(scope);
        if (released <= (scope == block_scope ? clock.block : clock.launch)) released = 0;
        if (released > acquired) acquired = released, order.fences_used = true;
        if (writes && fenced > clock.block && fenced > released) released = fenced, any_release = true;
    }
}

EMU_RAW inline const char* space_name(const Region* region) { return !region ? "" : region->space == Space::Shared ? "shared" : "global"; }

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
    char text[120];
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

EMU_COLD inline void report_out_of_bounds(uintptr_t address, const char* what, uint32_t place) {
    Finding* finding = enter("out_of_bounds", Severity::Error, place);
    if (!finding) return;
    uintptr_t distance = 0;
    const Region* region = nearest_region(address, &distance);
    if (region && distance == 0) {  // it begins inside and runs over the end
        address = region->end;
        distance = 1;
    }
    if (!region || distance > near_bytes) return finish(*finding, "{0} %s where no memory is allocated", what);
    Memory memory = memory_of(region, address);
    add_memory(*finding, memory);
    bool before = address < region->begin;
    finish(*finding, "{0} %s out of bounds, %zu bytes %s of %s", what, static_cast<size_t>(before ? distance : distance - 1),
           before ? "before the begin" : "behind the end", describe(memory).text);
}

void suspect_barrier();

EMU_COLD inline void report_uninitialised(uintptr_t address, uint32_t place) {
    Finding* finding = enter("uninitialised_read", Severity::Error, place);
    Memory memory = memory_at(address);
    bool shared = memory.region && memory.region->space == Space::Shared;
    if (shared) suspect_barrier();
    if (!finding) return;
    add_memory(*finding, memory);
    finish(*finding, "{0} reads byte %zu of %s, which nothing has written %s", static_cast<size_t>(address - memory.begin), describe(memory).text,
           shared ? "in this block" : "since it was allocated");
}

EMU_COLD inline void report_read_only(uintptr_t address, uint32_t place) {
    Finding* finding = enter("out_of_bounds", Severity::Error, place);
    if (!finding) return;
    Memory memory = memory_at(address);
    add_memory(*finding, memory);
    finish(*finding, "{0} writes to %s, which is an input and must not be changed", describe(memory).text);
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
    finding.thread = index_of(conflict.thread);
    add_memory(finding, memory);
    Words where = describe(memory);
    const char* what = conflict.writes ? "written" : "read";
    const char* other = conflict.with_atomic && conflict.other_writes ? "changed by an atomic" : conflict.other_writes ? "written" : "read";
    const char* same = same_value ? " (all write the same value)" : conflict.with_atomic && conflict.writes ? " (one of them by an atomic)" : "";
    if (conflict.between_blocks)
        return finish(finding, "%s is %s at {0} by one block and %s at {1} by another in the same launch, and nothing orders the two%s", where.text,
                      what, other, same);
    Index own = index_of(conflict.thread), others = index_of(conflict.other_thread);
    char by[60] = "others";
    if (conflict.thread != conflict.other_thread) snprintf(by, sizeof by, "thread (%u,%u,%u)", others.x, others.y, others.z);
    finish(finding, "%s is %s at {0} by thread (%u,%u,%u) and %s at {1} by %s, with %s between%s", where.text, what, own.x, own.y, own.z, other, by,
           conflict.in_warp ? "no __syncwarp() or __syncthreads()" : "no __syncthreads()", same);
}

EMU_COLD inline void report_race(const Conflict& conflict, bool same_value) {
    bool mild = conflict.in_warp || conflict.is_volatile;
    Severity severity = same_value ? Severity::Info : mild ? Severity::Warning : Severity::Error;
    Finding* finding = enter("race", severity, conflict.place, conflict.other_place);
    if (!same_value && !conflict.between_blocks) suspect_barrier();
    if (finding) write_race(*finding, conflict, same_value);
}

enum class Kind : unsigned char { Plain, Volatile, Atomic };

// A write that races is only an error if it changes the value, which is known when the next access begins.
struct PendingWrite {
    Conflict conflict;
    char before[16];
    bool waits;
};
inline constinit PendingWrite pending{};

// A plain read of what atomics write: harmless if the thread then compares and swaps there, as loops over atomicCAS begin.
struct Suspect {
    Conflict conflict;
    bool waits;
};
inline constinit Suspect suspects[1024] = {};
inline constinit bool any_suspect = false;

EMU_COLD inline void settle_pending() {
    pending.waits = false;
    const Conflict& conflict = pending.conflict;
    bool same = conflict.bytes <= sizeof pending.before &&
                memcmp(pending.before, reinterpret_cast<const void*>(conflict.address), conflict.bytes) == 0;
    report_race(conflict, same);
}

EMU_COLD inline void settle_suspect(unsigned thread) {
    if (!suspects[thread].waits) return;
    suspects[thread].waits = false;
    report_race(suspects[thread].conflict, false);
}
EMU_COLD inline void settle_suspects() {
    any_suspect = false;
    for (unsigned thread = 0; thread < 1024; ++thread) settle_suspect(thread);
}

EMU_COLD inline void found(const Conflict& conflict) {
    if (conflict.writes && conflict.bytes <= sizeof pending.before) {
        pending.conflict = conflict;
        emu_libc_memcpy(pending.before, reinterpret_cast<const void*>(conflict.address), conflict.bytes);
        pending.waits = true;
        forget_cache();  // so the next access takes the long way
        return;
    }
    if (!conflict.writes && conflict.with_atomic) {
        settle_suspect(conflict.thread);
        suspects[conflict.thread] = {conflict, true};
        any_suspect = true;
        return;
    }
    report_race(conflict, false);
}

// The last write of a cell, which may race with this access.
EMU_COLD inline bool check_writer(const Cell& cell, uintptr_t address, unsigned bytes, uint32_t mask, uint32_t who, bool writes, Kind kind) {
    if (!(cell.bits >> written_shift & mask) || cell.write_time < clock.launch) return false;
    unsigned self = who & 1023, other = cell.writer & 1023;
    bool atomically = cell.bits & atomic_write;
    if (atomically && kind == Kind::Atomic) return false;
    bool between = cell.write_time < clock.block;
    if (between ? blocks_ordered(cell.write_time, self) : other == self || threads_ordered(cell.write_time, other, self)) return false;
    // A flag: a volatile that one thread writes, behind a fence if the other is of its block, and another reads.
    if (kind == Kind::Volatile && cell.bits & volatile_write && !writes && (between || is_released(address))) return false;
    found({address, bytes, place_in(who), place_in(cell.writer), self, other, writes, true, between, !between && other / 32 == self / 32,
           kind == Kind::Volatile || (cell.bits & volatile_write) != 0, atomically || kind == Kind::Atomic});
    return true;
}

EMU_COLD inline bool check_reader(const Cell& cell, uintptr_t address, unsigned bytes, uint32_t mask, uint32_t who, Kind kind) {
    if (!(cell.bits >> read_shift & mask) || cell.read_time < clock.launch) return false;
    unsigned self = who & 1023, other = cell.reader & 1023;
    if (kind == Kind::Volatile && cell.bits & volatile_read && is_released(address)) return false;
    bool many = cell.bits & (many_lanes | many_warps);
    bool between = cell.read_time < clock.block || (cell.bits & other_block && !(cell.read_time >= clock.barrier && (many || other != self)));
    bool in_warp = !between && other / 32 == self / 32 && !(cell.bits & many_warps);
    if (between ? blocks_ordered(cell.read_time, self) : (other == self && !many) || threads_ordered(cell.read_time, other, self)) return false;
    found({address, bytes, place_in(who), place_in(cell.reader), self, other, true, false, between, in_warp,
           kind == Kind::Volatile || (cell.bits & volatile_read) != 0, kind == Kind::Atomic});
    return true;
}

EMU_COLD inline void bad_memory(const Cell& cell, uintptr_t address, uintptr_t cell_address, unsigned bytes, uint32_t mask, uint32_t who,
                                bool writes) {
    uint32_t missing = mask & ~(cell.bits >> allocated_shift);
    if (missing) {
        char what[40];
        snprintf(what, sizeof what, "%s %u bytes", writes ? "writes" : "reads", bytes);
        return report_out_of_bounds(missing == mask && address < cell_address ? cell_address : address, what, place_in(who));
    }
    missing = mask & ~(cell.bits >> initialised_shift);
    if (!writes && missing) report_uninitialised(cell_address + static_cast<unsigned>(__builtin_ctz(missing)), place_in(who));
    if (writes && cell.bits & read_only) report_read_only(address, place_in(who));
}

// The general form of a check, for what the short one in hooks.h leaves.
EMU_RAW inline bool may_race(uint32_t time) { return time >= clock.launch && (time >= clock.barrier || time < clock.block); }

EMU_COLD inline uint32_t other_readers(const Cell& cell, uint32_t who) {
    uint32_t time = cell.read_time, kept = cell.bits & other_block;
    if (time < clock.launch) return 0;
    if (time < clock.block) return other_block;
    if (time < clock.barrier) return kept;
    unsigned self = who & 1023, other = cell.reader & 1023;
    if (other == self) return cell.bits & (other_block | many_lanes | many_warps);
    if (threads_ordered(time, other, self)) return kept;
    return kept | (cell.bits & (many_lanes | many_warps)) | (other / 32 == self / 32 ? many_lanes : many_warps);
}

EMU_COLD inline bool read_cell(Cell& cell, uintptr_t address, uintptr_t at, unsigned bytes, uint32_t mask, uint32_t who, Kind kind,
                               bool reported) {
    uint32_t need = mask << allocated_shift | mask << initialised_shift;
    if ((cell.bits & need) != need) {
        if (!reported) bad_memory(cell, address, at, bytes, mask, who, false);
        reported = true;
        if (mask & ~(cell.bits >> allocated_shift)) return true;  // who writes it later races with this read
    }
    if (may_race(cell.write_time) && !reported) reported = check_writer(cell, address, bytes, mask, who, false, kind);
    uint32_t flags = other_readers(cell, who) | (kind == Kind::Volatile ? volatile_read : 0);
    constexpr uint32_t replaced = 0xfu << read_shift | many_lanes | many_warps | other_block | volatile_read;
    uint32_t kept = cell.read_time >= clock.barrier ? cell.bits & 0xfu << read_shift : 0;
    cell.bits = (cell.bits & ~replaced) | flags | kept | mask << read_shift;
    cell.read_time = clock.time;
    cell.reader = who;
    return reported;
}

EMU_COLD inline bool write_cell(Cell& cell, uintptr_t address, uintptr_t at, unsigned bytes, uint32_t mask, uint32_t who, Kind kind,
                                bool reported) {
    if ((cell.bits & (mask | read_only)) != mask) {
        if (!reported) bad_memory(cell, address, at, bytes, mask, who, true);
        reported = true;
        if ((cell.bits & mask) != mask) return true;
    }
    if (may_race(cell.write_time) && !reported) reported = check_writer(cell, address, bytes, mask, who, true, kind);
    if ((may_race(cell.read_time) || (cell.bits & other_block && cell.read_time >= clock.launch)) && !reported)
        reported = check_reader(cell, address, bytes, mask, who, kind);
    uint32_t kept = cell.write_time == clock.time && ((cell.writer ^ who) & 1023) == 0 ? cell.bits & 0xfu << written_shift : 0;
    constexpr uint32_t replaced = 0xfu << written_shift | atomic_write | volatile_write;
    cell.bits = (cell.bits & ~replaced) | kept | mask << written_shift | mask << initialised_shift |
                (kind == Kind::Atomic ? atomic_write : kind == Kind::Volatile ? volatile_write : 0);
    cell.write_time = clock.time;
    cell.writer = who;
    return reported;
}

EMU_COLD inline void check_range(uintptr_t address, size_t bytes, const void* code, bool writes, Kind kind) {
    if (pending.waits) settle_pending();
    // The host's accesses race with nothing: launches run at once.
    if (clock.self == Clock::host) return writes ? mark_initialised(reinterpret_cast<const void*>(address), bytes) : void();
    last_code = code;
    uint32_t who = who_is_at(code);
    bool reported = false;
    for (uintptr_t at = address & ~uintptr_t{3}; at < address + bytes; at += 4) {
        Page* page = page_of(at);
        if (!page) {  // the rest of this page has no shadow either
            at |= (uintptr_t{1} << page_shift) - 4;
            continue;
        }
        Cell& cell = page->cells[(at >> 2) % page_cells];
        uint32_t mask = byte_mask(at, address, address + bytes);
        auto size = static_cast<unsigned>(bytes);
        // Structs are copied whole, with their padding: that is no use of it.
        bool partly = bytes > 16 && (cell.bits >> allocated_shift & mask) == mask && (cell.bits >> initialised_shift & mask) != mask;
        if (!writes && partly) continue;
        reported = writes ? write_cell(cell, address, at, size, mask, who, kind, reported)
                          : read_cell(cell, address, at, size, mask, who, kind, reported);
    }
}

}  // namespace sanitizer
}  // namespace emu
