// Warp-wide operations: the last lane to arrive works out what every lane receives.
#pragma once

#include "block.h"

namespace emu EMU_HIDDEN {

EMU_UNCHECKED uint64_t reduce_pair(Collective operation, uint64_t a, uint64_t b) {
    auto x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
    auto sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
    switch (operation) {
        case Collective::Add: return x + y;
        case Collective::Min: return x < y ? x : y;
        case Collective::Max: return x > y ? x : y;
        case Collective::MinSigned: return sx < sy ? x : y;
        case Collective::MaxSigned: return sx > sy ? x : y;
        case Collective::And: return x & y;
        case Collective::Or: return x | y;
        default: return x ^ y;
    }
}

EMU_UNCHECKED uint64_t match(const Thread* lanes, unsigned group, uint64_t value) {
    unsigned same = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (group >> lane & 1 && lanes[lane].given == value) same |= 1u << lane;
    return same;
}

EMU_UNCHECKED uint64_t fold(Collective operation, const Thread* lanes, unsigned group) {
    unsigned first = static_cast<unsigned>(__builtin_ctz(group));
    if (operation == Collective::Ballot) {
        unsigned votes = 0;
        for (unsigned lane = first; lane < 32; ++lane)
            if (group >> lane & 1 && lanes[lane].given) votes |= 1u << lane;
        return votes;
    }
    if (operation == Collective::MatchAll) return match(lanes, group, lanes[first].given) == group ? group : 0;
    uint64_t value = lanes[first].given;
    for (unsigned lane = first + 1; lane < 32; ++lane)
        if (group >> lane & 1) value = reduce_pair(operation, value, lanes[lane].given);
    return value;
}

// `group` all do the same operation.
EMU_UNCHECKED void resolve(Thread* lanes, unsigned group) {
    Collective operation = lanes[__builtin_ctz(group)].operation;
    if (operation == Collective::Sync) {
        EMU_TELL(lanes_met(lanes, group));
        return;
    }
    uint64_t folded = 0;
    bool by_value = operation == Collective::MatchAny || operation == Collective::Active;
    if (operation != Collective::Shuffle && !by_value) folded = fold(operation, lanes, group);
    for (unsigned rest = group; rest; rest &= rest - 1) {
        Thread& thread = lanes[__builtin_ctz(rest)];
        if (operation == Collective::Shuffle) {
            // A lane that does not take part has nothing to give: PTX leaves it undefined, we keep the reader's own.
            bool present = group >> thread.source_lane & 1;
            if (!present) EMU_TELL(lane_is_absent(thread));
            thread.received = present ? lanes[thread.source_lane].given : thread.given;
        } else {
            thread.received = by_value ? match(lanes, group, thread.given) : folded;
        }
    }
}

EMU_UNCHECKED void resolve_by_operation(Thread* lanes, unsigned group) {
    while (group) {
        Collective operation = lanes[__builtin_ctz(group)].operation;
        unsigned same = 0;
        for (unsigned rest = group; rest; rest &= rest - 1)
            if (lanes[__builtin_ctz(rest)].operation == operation) same |= rest & -rest;
        resolve(lanes, same);
        group &= ~same;
    }
}

// Completes the operations whose every live lane has come; `wanted` are the lanes whose turn may have come.
EMU_UNCHECKED void Worker::complete_if_all_arrived(unsigned number, unsigned wanted) {
    Warp& warp = warps_[number];
    Thread* lanes = &threads_[number * 32];
    while (wanted) {
        unsigned mask = lanes[__builtin_ctz(wanted)].mask;
        unsigned needed = mask & warp.live, group = 0;
        wanted &= ~mask & (wanted - 1);
        if ((warp.waiting & needed) != needed) continue;
        for (unsigned rest = needed; rest; rest &= rest - 1)
            if (lanes[__builtin_ctz(rest)].mask == mask) group |= rest & -rest;
        if (group != needed || group == 0) continue;
        resolve_by_operation(lanes, group);
        warp.waiting &= ~group;
        make_ready(number, group);
    }
}

// Lanes that ask who is with them wait until nobody else of the block can run: those who came are together.
EMU_UNCHECKED bool Worker::complete_partial(bool active_only) {
    bool completed = false;
    for (unsigned first = 0; first < size_; first += 32) {
        Warp& warp = warps_[first / 32];
        unsigned group = 0;
        for (unsigned rest = warp.waiting; rest; rest &= rest - 1)
            if (!active_only || threads_[first + __builtin_ctz(rest)].operation == Collective::Active) group |= rest & -rest;
        if (group) EMU_TELL(lanes_missing(&threads_[first], group, warp.live));
        resolve_by_operation(&threads_[first], group);
        make_ready(first / 32, group);
        warp.waiting &= ~group;
        completed |= group != 0;
    }
    return completed;
}

// Nobody can run: lanes wait for lanes that wait elsewhere.  Hardware goes on with the lanes it has, and so do we.
EMU_UNCHECKED bool Worker::complete_partial_collectives() {
    current_ = nullptr;
    return complete_partial(true) || complete_partial(false);
}

EMU_OUTLINE void Worker::collect(Collective operation, unsigned mask, uint64_t given, unsigned source_lane) {
    EMU_TELL(lane_arrives(__builtin_return_address(0), mask));
    Thread& thread = *current_;
    unsigned bit = 1u << thread.lane();
    thread.operation = operation;
    thread.mask = mask | bit;
    thread.given = given;
    thread.source_lane = static_cast<unsigned char>(source_lane);
    Warp& warp = warps_[thread.linear / 32];
    warp.waiting |= bit;
    unsigned needed = thread.mask & warp.live;
    if ((warp.waiting & needed) == needed) complete_if_all_arrived(thread.linear / 32, bit);
    wait();
}

}  // namespace emu
