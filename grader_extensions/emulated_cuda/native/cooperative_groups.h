// Cooperative groups inside a block: the block, tiles of a warp, and the lanes that are together.
#pragma once

#include <cuda_runtime.h>

#include "emu/crew.h"

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
thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }

// All blocks of the grid; they can meet after cudaLaunchCooperativeKernel only.
class grid_group {
public:
    using arrival_token = uint64_t;
    static bool is_valid() { return emu::worker->launch()->cooperative; }
    static arrival_token barrier_arrive() {
        if (!is_valid()) emu::trap("a barrier of the grid in a kernel that cudaLaunchCooperativeKernel did not launch");
        return emu::team_arrive();
    }
    static void barrier_wait(arrival_token&& token) { emu::team_wait(token); }
    static void sync() { barrier_wait(barrier_arrive()); }
    static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
    static unsigned long long num_blocks() { return emu::worker->launch()->blocks(); }
    static unsigned long long block_rank() { return (uint64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static dim3 block_index() { return blockIdx; }
};

inline grid_group this_grid() { return {}; }

// The blocks of a cluster, which see each other's shared memory; a kernel without clusters has one block in each.
class cluster_group {
    static dim3 shape() { return emu::worker->launch()->cluster; }

public:
    struct arrival_token {
        uint64_t phase;
    };
    static arrival_token barrier_arrive() {
        if (num_blocks() > 1) return {emu::team_arrive()};
        __syncthreads();
        return {0};
    }
    static void barrier_wait(arrival_token&& token) {
        if (num_blocks() > 1) emu::team_wait(token.phase);
    }
    // The phase that barrier_arrive() began: a wait without its token is for that one.
    static void barrier_wait() {
        if (num_blocks() > 1) emu::team_wait(emu::team->arrived_at[emu::team_rank] - 1);
    }
    static void sync() { barrier_wait(barrier_arrive()); }
    static unsigned num_blocks() { return shape().x * shape().y * shape().z; }
    static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
    static unsigned size() { return num_threads(); }
    static dim3 dim_blocks() { return shape(); }
    static dim3 block_index() { return {blockIdx.x % shape().x, blockIdx.y % shape().y, blockIdx.z % shape().z}; }
    static unsigned block_rank() {
        dim3 at = block_index();
        return (at.z * shape().y + at.y) * shape().x + at.x;
    }
    static unsigned thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
    static dim3 dim_threads() { return {shape().x * blockDim.x, shape().y * blockDim.y, shape().z * blockDim.z}; }
    template <class T>
    static T* map_shared_rank(T* address, unsigned rank) {
        if (rank >= num_blocks()) emu::trap("map_shared_rank of a rank that the cluster does not have");
        if (num_blocks() == 1 || rank == block_rank()) return address;
        auto* plain = const_cast<const void*>(static_cast<const volatile void*>(address));
        void* there = emu::team->workers[rank]->counterpart(*emu::worker, plain);
        if (!there) emu::trap("map_shared_rank of a variable that the other block has not come to");
        return static_cast<T*>(there);
    }
    static unsigned query_shared_rank(const void* address) {
        for (unsigned rank = 0; rank < num_blocks(); ++rank) {
            const emu::Worker* other = num_blocks() == 1 ? emu::worker : emu::team->workers[rank];
            if (other->shared_window().contains(address)) return rank;
        }
        return block_rank();
    }
};

inline cluster_group this_cluster() { return {}; }

class coalesced_group : public warp_part {
public:
    using warp_part::warp_part;
};

inline coalesced_group coalesced_threads(unsigned line = __builtin_LINE()) { return coalesced_group(__activemask(line)); }

// The threads of a tile or a coalesced group that have the same label.
template <class Group, class T>
coalesced_group labeled_partition(const Group& group, T label) { return coalesced_group(__match_any_sync(group.mask(), label)); }
template <class Group>
coalesced_group binary_partition(const Group& group, bool label) { return labeled_partition(group, label); }

template <class Group>
void sync(const Group& group) { group.sync(); }
template <class Group>
unsigned thread_rank(const Group& group) { return group.thread_rank(); }

}  // namespace cooperative_groups
