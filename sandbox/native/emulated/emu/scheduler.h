// How a Worker chooses which thread of its block runs next: ready threads first, then ones not yet started.
#pragma once

#include "block.h"
#include "collectives.h"

namespace emu EMU_HIDDEN {

EMU_UNCHECKED void Worker::begin_block(const Launch& launch, uint3 block_index) {
    launch_ = &launch;
    size_ = live_ = launch.threads();
    next_ = ready_head_ = ready_tail_ = arrived_ = 0;
    next_index_ = {0, 0, 0};
    failure_ = 0;
    whole_block_ = false;
    gathering_ = {};
    static_bytes_ = 0;
    ++block_serial_;
    for (unsigned first = 0; first < size_; first += 32)
        warps_[first / 32] = {size_ - first >= 32 ? ~0u : (1u << (size_ - first)) - 1, 0};
    blockIdx = block_index;
    blockDim = launch.block;
    gridDim = launch.grid;
    // The end of the memory asked for touches the guard page, to within the 16 bytes that a float4 needs.
    size_t dynamic_bytes = (launch.dynamic_bytes + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment;
    dynamic_base_ = dynamic_end_ - dynamic_bytes;
    fill_poison(dynamic_base_, dynamic_bytes);
}

EMU_UNCHECKED bool Worker::run_block(const Launch& launch, uint3 block_index) {
    begin_block(launch, block_index);
    EMU_TELL(block_begins());
    EMU_TELL(shared_memory(dynamic_base_, launch.dynamic_bytes, "dynamic"));
    while (live_ > 0 && !failure_) {
        if (next_ == size_ && ready_head_ == ready_tail_ && !complete_partial_collectives()) {
            EMU_TELL(block_is_stuck());
            give_up(719);
        }
        resume_next(scheduler_);
    }
    EMU_TELL(block_ends());
    current_ = nullptr;
    if (failure_) {  // stacks in the middle of a thread are of no further use
        idle_.clear();
        fibers_.clear();
    }
    return !failure_;
}

EMU_UNCHECKED void Worker::give_up(int failure) {
    failure_ = failure;
    Context abandoned;
    switch_context(abandoned, scheduler_);
    __builtin_unreachable();
}

EMU_UNCHECKED void Worker::fiber_main() {
    for (Worker& self = *worker;;) {
        do {  // the code that resumes an idle fiber has a thread for it to start
            self.start_thread();
            self.launch_->run_thread(self.launch_->call);
            self.end_thread();
        } while (self.next_ < self.size_ && self.ready_head_ == self.ready_tail_);
        self.idle_.push_back(self.fiber_);
        self.resume_next(self.fiber_->context);
    }
}

EMU_UNCHECKED void Worker::start_thread() {
    Thread& thread = threads_[next_];
    thread.linear = next_++;
    thread.index = next_index_;
    thread.fiber = fiber_;
    thread.error = 0;
    if (++next_index_.x == blockDim.x) {
        next_index_.x = 0;
        if (++next_index_.y == blockDim.y) {
            next_index_.y = 0;
            ++next_index_.z;
        }
    }
    current_ = &thread;
    threadIdx = thread.index;
    EMU_TELL(thread_runs(thread.linear));
}

inline int* error_of_thread() { return worker && worker->in_kernel() ? &worker->current().error : nullptr; }

inline bool Worker::take_block() {
    static const bool wanted = [] {
        const char* setting = getenv("GRADER_EMULATED_BLOCK_LOOPS");
        return !setting || *setting != '0';
    }();
    dim3 cluster = launch_->cluster;
    if (!wanted || next_ != 1 || launch_->cooperative || cluster.x * cluster.y * cluster.z != 1) return false;
    if (!per_thread_) per_thread_ = std::make_unique<GuardedMemory>(per_thread_bytes);
    if (!*per_thread_) return false;
    next_ = size_;
    per_thread_used_ = 0;
    return whole_block_ = true;
}

inline void* Worker::take_per_thread(size_t bytes, size_t alignment) {
    // Vectors are loaded from 16 bytes; a line of its own keeps one variable's elements from another's.
    size_t granule = alignment > 64 ? alignment : 64;
    size_t begin = (per_thread_used_ + granule - 1) / granule * granule;
    if (begin + bytes > per_thread_->bytes) give_up(2);
    per_thread_used_ = begin + bytes;
    return per_thread_->begin() + begin;
}

EMU_UNCHECKED void Worker::end_thread() {
    if (whole_block_) {
        live_ = 0;
        return;
    }
    unsigned linear = current_->linear;
    EMU_TELL(thread_ends());
    Warp& warp = warps_[linear / 32];
    warp.live &= ~(1u << linear % 32);
    --live_;
    // Who waits for threads that exit waits no longer: barriers count the others.
    if (warp.waiting) complete_if_all_arrived(warp, &threads_[linear / 32 * 32], warp.waiting);
    if (arrived_ && arrived_ == live_) release_barrier();
    if (after_exit_) after_exit_(*this);
}

EMU_UNCHECKED void Worker::resume_next(Context& from) {
    if (ready_head_ != ready_tail_) {
        Thread* thread = ready_[ready_head_++ % max_threads];
        current_ = thread;
        threadIdx = thread->index;
        EMU_TELL(thread_runs(thread->linear));
        fiber_ = thread->fiber;
    } else if (next_ < size_) {
        fiber_ = take_fiber();
    } else {
        if (&from != &scheduler_) switch_context(from, scheduler_);
        return;
    }
    if (&fiber_->context != &from) switch_context(from, fiber_->context);
}

EMU_UNCHECKED void Worker::wait() {
    resume_next(current_->fiber->context);
}

// For a thread that spins: lets the others of its block run, those not yet started too.
EMU_UNCHECKED void Worker::yield() {
    if (whole_block_) return;
    Thread* spinning = current_;
    make_ready(spinning);
    if (next_ == size_) return wait();
    fiber_ = take_fiber();
    switch_context(spinning->fiber->context, fiber_->context);
}

EMU_UNCHECKED void Worker::release_barrier() {
    EMU_TELL(barrier_released());
    for (unsigned i = 0; i < arrived_; ++i) make_ready(at_barrier_[i]);
    arrived_ = 0;
    result_ = gathering_;
    gathering_ = {};
}

// Counts the threads that have not exited, wherever in the code they stand, as hardware does.
EMU_OUTLINE void Worker::barrier(bool predicate) {
    EMU_TELL(barrier_reached(__builtin_return_address(0)));
    gathering_.count += predicate;
    gathering_.all &= predicate;
    gathering_.any |= predicate;
    if (arrived_ + 1 == live_) {  // the last one need not wait
        release_barrier();
        return;
    }
    at_barrier_[arrived_++] = current_;
    wait();
}

EMU_UNCHECKED void* Worker::static_shared(unsigned slot, size_t bytes, size_t alignment) {
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    SharedSlot& entry = slots_[slot];
    if (entry.block_serial == block_serial_) return entry.address;
    if (!entry.address) {
        // 16 at least: a float array is often read as float4.
        entry.granule = alignment > 16 ? alignment : 16;
        size_t rounded = (bytes + entry.granule - 1) / entry.granule * entry.granule;
        char* end = window_.extend(rounded);
        if (!end) give_up(2);
        entry.address = end - rounded;
    }
    entry.block_serial = block_serial_;
    static_bytes_ += bytes;
    if (static_bytes_ + launch_->dynamic_bytes > launch_->shared_limit) give_up(1);
    fill_poison(entry.address, (bytes + entry.granule - 1) / entry.granule * entry.granule);
    EMU_TELL(shared_memory(entry.address, bytes, ""));
    return entry.address;
}

}  // namespace emu
