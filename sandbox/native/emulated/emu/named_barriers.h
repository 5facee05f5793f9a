// The 16 barriers of a block that bar.sync and bar.arrive name, and threads that exit in the middle.
#pragma once

#include "block.h"
#include "fault.h"

namespace emu EMU_HIDDEN {

// One barrier.  A warp whose every live lane has arrived counts as 32 threads, as on the device.
struct NamedBarrier {
    unsigned wanted = 0;  // threads; 0 for all of the block
    unsigned threads = 0, arrived = 0;
    uint32_t lanes[max_threads / 32] = {};
    Worker::BarrierVotes votes;
    std::vector<Thread*> waiting;
};

struct NamedBarriers {
    uint64_t block_serial = 0;
    NamedBarrier barriers[16];
};

inline uint64_t pack_votes(const Worker::BarrierVotes& votes) { return votes.count | uint64_t{votes.all} << 32 | uint64_t{votes.any} << 33; }

EMU_UNCHECKED void Worker::release_named(NamedBarrier& barrier) {
    EMU_TELL(named_released(barrier.lanes));
    for (Thread* thread : barrier.waiting) {
        thread->received = pack_votes(barrier.votes);
        make_ready(thread->linear / 32, 1u << thread->lane());
    }
    barrier = {};
}

inline void Worker::recheck_named(Worker& self) {
    if (self.named_->block_serial != self.block_serial_) return;
    for (NamedBarrier& barrier : self.named_->barriers)
        if (barrier.arrived && !barrier.wanted && barrier.arrived == self.live_) self.release_named(barrier);
}

EMU_OUTLINE Worker::BarrierVotes Worker::named_barrier(unsigned number, unsigned threads, bool predicate, bool arrives_only) {
    if (number > 15) trap("bar.sync with a number above 15");
    if (threads % 32) trap("bar.sync with a number of threads that is not a multiple of 32");
    if (number == 0 && !arrives_only && (threads == 0 || threads == (size_ + 31) / 32 * 32)) {
        EMU_TELL(barrier_called_at(__builtin_return_address(0)));
        this->barrier(predicate);
        return result_;
    }
    if (!named_) named_ = std::shared_ptr<NamedBarriers>(new NamedBarriers);
    after_exit_ = recheck_named;
    if (named_->block_serial != block_serial_) {
        *named_ = {};
        named_->block_serial = block_serial_;
    }
    NamedBarrier& barrier = named_->barriers[number];
    if (barrier.arrived && barrier.wanted != threads) trap("bar.sync with another number of threads than those who wait at that barrier");
    barrier.wanted = threads;
    barrier.votes.count += predicate, barrier.votes.all &= predicate, barrier.votes.any |= predicate;
    unsigned warp = current_->linear / 32, before = barrier.lanes[warp];
    barrier.lanes[warp] |= 1u << current_->lane();
    ++barrier.arrived;
    barrier.threads += 1;
    if (before != barrier.lanes[warp] && barrier.lanes[warp] == warps_[warp].live)
        barrier.threads += 32 - static_cast<unsigned>(__builtin_popcount(barrier.lanes[warp]));
    bool complete = threads ? barrier.threads >= threads : barrier.arrived == live_;
    if (!arrives_only) barrier.waiting.push_back(current_);
    if (complete) release_named(barrier);
    if (!arrives_only) wait();
    uint64_t votes = current_->received;
    return {static_cast<unsigned>(votes), (votes >> 32 & 1) != 0, (votes >> 33 & 1) != 0};
}

// The stack of a thread that exits in the middle is used again from its start.
[[noreturn]] inline void Worker::exit_thread() {
    end_thread();
    prepare_context(fiber_->context, fiber_->stack.begin(), fiber_->top, &Worker::fiber_main);
    idle_.push_back(fiber_);
    Context abandoned;
    resume_next(abandoned);
    __builtin_unreachable();
}

}  // namespace emu
