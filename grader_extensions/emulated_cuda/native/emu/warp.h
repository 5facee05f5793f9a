// Warp-wide intrinsics: shuffles, votes, matches and reductions.
#pragma once

#include <string.h>

#include <type_traits>

#include "block.h"

namespace emu EMU_HIDDEN {

inline unsigned lane() { return worker->current().lane(); }

template <class T>
uint64_t to_bits(const T& value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "only values of up to 8 bytes can be shuffled");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
T from_bits(uint64_t bits) {
    T value;
    memcpy(static_cast<void*>(&value), &bits, sizeof value);
    return value;
}

EMU_INLINE uint64_t exchange(Collective operation, unsigned mask, uint64_t given, unsigned source_lane = 0) {
    worker->collect(operation, mask, given, source_lane);
    return worker->current().received;
}

template <class T>
EMU_INLINE T shuffle(unsigned mask, const T& value, unsigned source_lane) {
    return from_bits<T>(exchange(Collective::Shuffle, mask, to_bits(value), source_lane));
}

}  // namespace emu

template <class T>
EMU_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    unsigned lane = emu::lane(), w = static_cast<unsigned>(width);
    return emu::shuffle(mask, value, (lane & ~(w - 1)) | (static_cast<unsigned>(source) & (w - 1)));
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = emu::lane(), first = lane & ~(static_cast<unsigned>(width) - 1);
    return emu::shuffle(mask, value, delta <= lane - first ? lane - delta : lane);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = emu::lane(), last = lane | (static_cast<unsigned>(width) - 1);
    return emu::shuffle(mask, value, delta <= last - lane ? lane + delta : lane);
}
template <class T>
EMU_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
    unsigned lane = emu::lane(), last = lane | (static_cast<unsigned>(width) - 1), source = lane ^ static_cast<unsigned>(lane_mask);
    return emu::shuffle(mask, value, source <= last ? source & 31 : lane);
}

EMU_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { emu::worker->collect(emu::Collective::Sync, mask, 0); }
EMU_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return static_cast<unsigned>(emu::exchange(emu::Collective::Ballot, mask, predicate != 0));
}
EMU_INLINE int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
EMU_INLINE int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
EMU_INLINE int __uni_sync(unsigned mask, int predicate) {
    unsigned votes = __ballot_sync(mask, predicate);
    return votes == 0 || votes == (mask & emu::worker->warp().live);
}
// The lanes that stand at the same place of the source.
EMU_INLINE unsigned __activemask(unsigned line = __builtin_LINE()) {
    return static_cast<unsigned>(emu::exchange(emu::Collective::Active, 0xffffffffu, line));
}

template <class T>
EMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    return static_cast<unsigned>(emu::exchange(emu::Collective::MatchAny, mask, emu::to_bits(value)));
}
template <class T>
EMU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
    auto lanes = static_cast<unsigned>(emu::exchange(emu::Collective::MatchAll, mask, emu::to_bits(value)));
    *all_equal = lanes != 0;
    return lanes;
}

#define EMU_REDUCE(name, operation, T)                                                             \
    EMU_INLINE T __reduce_##name##_sync(unsigned mask, T value) {                                      \
        return static_cast<T>(emu::exchange(emu::Collective::operation, mask, emu::to_bits(value))); \
    }
EMU_REDUCE(add, Add, unsigned)
EMU_REDUCE(add, Add, int)
EMU_REDUCE(min, Min, unsigned)
EMU_REDUCE(min, MinSigned, int)
EMU_REDUCE(max, Max, unsigned)
EMU_REDUCE(max, MaxSigned, int)
EMU_REDUCE(and, And, unsigned)
EMU_REDUCE(or, Or, unsigned)
EMU_REDUCE(xor, Xor, unsigned)
#undef EMU_REDUCE
