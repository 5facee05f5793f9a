// What orders two accesses: barriers, __syncwarp, and atomics behind a fence.  Times are those of Clock; an access at time t comes
// before everything that a synchronisation after t has released.  Shuffles and votes order nothing, as CUDA documents.
#pragma once

#include "findings.h"

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

}  // namespace sanitizer
}  // namespace emu
