// Checks one access against its cells: does the memory exist, was it written, and is the last access by another thread over.
// The first race at each address is found, as in FastTrack (Flanagan and Freund, PLDI 2009).
#pragma once

#include "report.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

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
    if (missing) return report_out_of_bounds(missing == mask && address < cell_address ? cell_address : address, bytes, writes, place_in(who));
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
