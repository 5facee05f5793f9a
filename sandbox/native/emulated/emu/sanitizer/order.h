// What orders two accesses: barriers, __syncwarp, and atomics behind a fence.  Times are those of Clock; an access at time t comes
// before everything that a synchronisation after t has released.  Shuffles and votes order nothing, as CUDA documents.
#pragma once

#include "findings.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

struct Order {
    // [thread][lane]: when this thread last met that lane of its own warp; and when the whole warp met.
    uint32_t lanes[1024][32];
    uint32_t warp[32];
    uint32_t warps[32][32];    // when two warps last met at a barrier of their own
    uint32_t acquired[1024];   // everything before this time is ordered before the thread, in other blocks too
    uint32_t fenced[1024];     // the thread's last fence
    uint32_t block_acquired, block_fenced, barrier_fenced;
    bool lanes_used, warps_used, fences_used;
};
inline constinit Order order{};

// When an atomic of an address was last done behind a fence.
struct Release {
    uintptr_t address;
    uint32_t time;
};
inline constexpr unsigned release_slots = 4096;
inline constinit Release releases[release_slots] = {};
inline constinit bool any_release = false;

EMU_RAW inline void reset_order() {
    if (order.lanes_used) emu_libc_memset(order.lanes, 0, sizeof order.lanes);
    if (order.warps_used) emu_libc_memset(order.warps, 0, sizeof order.warps);
    if (order.fences_used) {
        emu_libc_memset(order.acquired, 0, sizeof order.acquired);
        emu_libc_memset(order.fenced, 0, sizeof order.fenced);
    }
    emu_libc_memset(order.warp, 0, sizeof order.warp);
    order.block_acquired = order.block_fenced = order.barrier_fenced = 0;
    order.lanes_used = order.warps_used = order.fences_used = false;
}

// Whether an access of `other` at `time`, in this block since its last barrier, is before what `self` does now.
EMU_RAW inline bool threads_ordered(uint32_t time, unsigned other, unsigned self) {
    if (time < order.acquired[self] || time < order.block_acquired) return true;
    if (other / 32 == self / 32) {
        if (time < order.warp[self / 32]) return true;
        return order.lanes_used && time < order.lanes[self][other % 32];
    }
    return order.warps_used && time < order.warps[self / 32][other / 32];
}

EMU_RAW inline bool blocks_ordered(uint32_t time, unsigned self) { return time < order.acquired[self] || time < order.block_acquired; }

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
    for (uint32_t acquired : order.acquired)
        if (acquired > order.block_acquired) order.block_acquired = acquired;
    order.barrier_fenced = order.block_fenced;
}

EMU_COLD inline void fence(unsigned self) {
    order.fences_used = true;
    order.fenced[self] = order.block_fenced = ++clock.time;
}

// What an atomic of `address` by `self` learns of others, and tells them.
EMU_RAW inline void synchronise_by(uintptr_t address, unsigned self, bool writes) {
    if (!any_release && !order.fences_used) return;
    Release& release = releases[(address >> 2) * 0x9e3779b1u % release_slots];
    if (release.address == address && release.time > clock.launch && release.time > order.acquired[self]) {
        order.fences_used = true;
        order.acquired[self] = release.time;
    }
    uint32_t fenced = order.fenced[self] > order.barrier_fenced ? order.fenced[self] : order.barrier_fenced;
    if (!writes || fenced <= clock.block) return;
    any_release = true;
    release = {address, fenced};
}

}  // namespace sanitizer
}  // namespace emu
