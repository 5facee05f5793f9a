// Cooperative groups inside a block: the block, tiles of a warp, and the lanes that are together.
#pragma once

#include <cuda_runtime.h>

namespace cooperative_groups {

class thread_block {
public:
    static void sync() { __syncthreads(); }
    static unsigned thread_rank() { return emu::worker->current().linear; }
    static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned size() { return num_threads(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
    static bool is_valid() { return true; }
};

inline thread_block this_thread_block() { return {}; }

// Lanes of one warp, known by their mask; a lane's rank is its place among them.
class warp_part {
public:
    explicit warp_part(unsigned mask) : mask_(mask) {}
    unsigned thread_rank() const { return static_cast<unsigned>(__builtin_popcount(mask_ & ((1u << emu::lane()) - 1))); }
    unsigned num_threads() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
    unsigned size() const { return num_threads(); }
    void sync() const { __syncwarp(mask_); }
    int any(int predicate) const { return __any_sync(mask_, predicate); }
    int all(int predicate) const { return __all_sync(mask_, predicate); }
    unsigned ballot(int predicate) const { return pack(__ballot_sync(mask_, predicate)); }
    template <class T>
    unsigned match_any(T value) const { return pack(__match_any_sync(mask_, value)); }
    template <class T>
    unsigned match_all(T value, int& all_equal) const { return pack(__match_all_sync(mask_, value, &all_equal)); }
    template <class T>
    T shfl(T value, unsigned rank) const { return emu::shuffle(mask_, value, lane_of(rank % num_threads())); }
    template <class T>
    T shfl_up(T value, unsigned delta) const {
        unsigned rank = thread_rank();
        return emu::shuffle(mask_, value, lane_of(delta <= rank ? rank - delta : rank));
    }
    template <class T>
    T shfl_down(T value, unsigned delta) const {
        unsigned rank = thread_rank();
        return emu::shuffle(mask_, value, lane_of(rank + delta < num_threads() ? rank + delta : rank));
    }
    template <class T>
    T shfl_xor(T value, unsigned lanes) const {
        unsigned other = thread_rank() ^ lanes;
        return emu::shuffle(mask_, value, lane_of(other < num_threads() ? other : thread_rank()));
    }
    unsigned mask() const { return mask_; }

private:
    unsigned lane_of(unsigned rank) const {
        unsigned rest = mask_;
        while (rank-- > 0) rest &= rest - 1;
        return static_cast<unsigned>(__builtin_ctz(rest));
    }
    // From bits by lane to bits by rank.
    unsigned pack(unsigned lanes) const {
        unsigned packed = 0, rank = 0;
        for (unsigned rest = mask_; rest; rest &= rest - 1, ++rank) packed |= (lanes >> __builtin_ctz(rest) & 1) << rank;
        return packed;
    }
    unsigned mask_;
};

template <unsigned Size, class Parent = thread_block>
class thread_block_tile : public warp_part {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "the emulated device has tiles of 1, 2, 4, 8, 16 or 32 threads");

public:
    thread_block_tile() : warp_part((Size == 32 ? ~0u : (1u << Size % 32) - 1) << (emu::lane() & ~(Size - 1))) {}
    static constexpr unsigned num_threads() { return Size; }
    static constexpr unsigned size() { return Size; }
    static unsigned thread_rank() { return emu::lane() & (Size - 1); }
    static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
    static unsigned meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
};

template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}

class coalesced_group : public warp_part {
public:
    using warp_part::warp_part;
};

inline coalesced_group coalesced_threads(unsigned line = __builtin_LINE()) { return coalesced_group(__activemask(line)); }

template <class Group>
void sync(const Group& group) {
    group.sync();
}
template <class Group>
unsigned thread_rank(const Group& group) {
    return group.thread_rank();
}

}  // namespace cooperative_groups
