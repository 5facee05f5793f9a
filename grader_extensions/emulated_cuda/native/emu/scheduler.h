// How a Worker chooses which thread of its block runs next: one of the first warp in the block's order, which is drawn anew at every
// barrier.  So a warp is as far ahead of the next as barriers allow, and a kernel that depends on which runs first is wrong in some order.
// Lanes of a warp keep their order: hardware runs them in step, so kernels without __syncwarp() are right there.
#pragma once

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "block.h"

// Warp-wide operations: the last lane to arrive works out what every lane receives.
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
        bool active = lanes[__builtin_ctz(wanted)].operation == Collective::Active;  // has come to no other operation
        unsigned needed = mask & warp.live, group = 0;
        wanted &= ~mask & (wanted - 1);
        if ((warp.waiting & needed) != needed) continue;
        for (unsigned rest = needed; rest; rest &= rest - 1) {
            const Thread& lane = lanes[__builtin_ctz(rest)];
            if (lane.mask == mask && (lane.operation == Collective::Active) == active) group |= rest & -rest;
        }
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

EMU_UNCHECKED void Worker::begin_block(const Launch& launch, uint3 block_index) {
    launch_ = &launch;
    size_ = live_ = launch.threads();
    started_count_ = arrived_ = spinning_head_ = spinning_tail_ = ready_warps_ = 0;
    upcoming_ = nullptr;
    failure_ = 0;
    whole_block_ = could_take_block_ = false;
    gathering_ = {};
    static_bytes_ = 0;
    ++block_serial_;
    block_number_ = (uint64_t{block_index.z} * launch.grid.y + block_index.y) * launch.grid.x + block_index.x;
    drawn_ = launch.order + block_number_ / 2 * 0x9e3779b97f4a7c15u;
    reverse_ = (block_number_ & 1) != launch.reversed() ? 31 : 0;
    draw_order();
    for (uint32_t& lanes : ready_) lanes = 0;
    for (unsigned first = 0; first < size_; first += 32) {
        uint32_t lanes = size_ - first >= 32 ? ~0u : (1u << (size_ - first)) - 1;
        warps_[first / 32] = {lanes, 0};
        started_[first / 32] = 0;
        make_ready(first / 32, lanes);
    }
    blockIdx = block_index;
    blockDim = launch.block;
    gridDim = launch.grid;
    // The end of the memory asked for touches the guard page, to within the 16 bytes that a float4 needs.
    size_t dynamic_bytes = (launch.dynamic_bytes + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment;
    dynamic_base_ = dynamic_end_ - dynamic_bytes;
    fill_poison(dynamic_base_, dynamic_bytes);
}

// A block and the next have reverse orders, and so have two launches whose orders differ in the highest bit.
EMU_UNCHECKED void Worker::draw_order() {
    if (!launch_->order) {
        order_ = 0;
        return;
    }
    drawn_ = (drawn_ & ~uint64_t{0} >> 1) * 6364136223846793005u + 1442695040888963407u;
    order_ = static_cast<unsigned>(drawn_ >> 59) ^ reverse_;
}

EMU_UNCHECKED void Worker::make_ready(unsigned warp, uint32_t lanes) {
    if (!lanes) return;
    if (upcoming_) {  // others may come before it now
        unsigned linear = static_cast<unsigned>(std::exchange(upcoming_, nullptr) - threads_);
        make_ready(linear / 32, 1u << linear % 32);
    }
    unsigned place = warp ^ order_;
    ready_[place] |= lanes;
    ready_warps_ |= 1u << place;
}

EMU_UNCHECKED Thread* Worker::take_first() {
    if (!ready_warps_) return nullptr;
    unsigned place = static_cast<unsigned>(__builtin_ctz(ready_warps_));
    uint32_t& lanes = ready_[place];
    unsigned linear = (place ^ order_) * 32 + static_cast<unsigned>(__builtin_ctz(lanes));
    lanes &= lanes - 1;
    if (!lanes) ready_warps_ &= ready_warps_ - 1;
    return &threads_[linear];
}

EMU_UNCHECKED Thread* Worker::take_ready() {
    Thread* thread = upcoming_ ? upcoming_ : take_first();
    upcoming_ = take_first();
    if (!thread) return spinning_head_ == spinning_tail_ ? nullptr : spinning_[spinning_head_++ % max_threads];
    if (started_count_ < size_) {
        unsigned linear = static_cast<unsigned>(thread - threads_);
        if (!(started_[linear / 32] >> linear % 32 & 1)) start_thread(linear);
    }
    return thread;
}

EMU_UNCHECKED bool Worker::run_block(const Launch& launch, uint3 block_index) {
    begin_block(launch, block_index);
    EMU_TELL(block_begins());
    EMU_TELL(shared_memory(dynamic_base_, launch.dynamic_bytes, "dynamic"));
    while (live_ > 0 && !failure_) {
        if (!can_run() && !complete_partial_collectives()) {
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
    for (Worker& self = *worker;;) {  // the code that resumes an idle fiber has a thread for it to start
        self.launch_->run_thread(self.launch_->call);
        self.end_thread();
        self.idle_.push_back(self.fiber_);
        self.resume_next(self.fiber_->context);
    }
}

EMU_UNCHECKED void Worker::start_thread(unsigned linear) {
    Thread& thread = threads_[linear];
    started_[linear / 32] |= 1u << linear % 32;
    ++started_count_;
    thread.linear = linear;
    thread.index = {linear, 0, 0};
    if (linear >= blockDim.x) thread.index = {linear % blockDim.x, linear / blockDim.x % blockDim.y, linear / blockDim.x / blockDim.y};
    thread.fiber = take_fiber();
}

inline bool Worker::take_block() {
    static const bool wanted = [] {
        const char* setting = getenv("GRADER_EMULATED_BLOCK_LOOPS");
        return !setting || *setting != '0';
    }();
    dim3 cluster = launch_->cluster;
    if (!wanted || started_count_ != 1 || launch_->cooperative || cluster.x * cluster.y * cluster.z != 1) return false;
    could_take_block_ = true;
    // The loops have one order, so one block of each launch is run in another, on fibers.
    if (launch_->order && size_ > 32 && block_number_ == (launch_->order & ~uint64_t{0} >> 1) % launch_->blocks()) return false;
    if (!per_thread_) per_thread_ = std::make_unique<GuardedMemory>(per_thread_bytes);
    if (!*per_thread_) return false;
    ready_warps_ = 0;
    upcoming_ = nullptr;
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
    if (warp.waiting) complete_if_all_arrived(linear / 32, warp.waiting);
    if (arrived_ && arrived_ == live_) release_barrier();
    if (after_exit_) after_exit_(*this);
}

EMU_UNCHECKED void Worker::resume_next(Context& from) {
    Thread* thread = take_ready();
    if (!thread) {
        if (&from != &scheduler_) switch_context(from, scheduler_);
        return;
    }
    current_ = thread;
    threadIdx = thread->index;
    EMU_TELL(thread_runs(thread->linear));
    fiber_ = thread->fiber;
    if (&fiber_->context != &from) switch_context(from, fiber_->context);
}

EMU_UNCHECKED void Worker::wait() { resume_next(current_->fiber->context); }

// For a thread that spins: lets all others of its block run.
EMU_UNCHECKED void Worker::yield() {
    if (whole_block_) return;
    spinning_[spinning_tail_++ % max_threads] = current_;
    wait();
}

EMU_UNCHECKED void Worker::release_barrier() {
    EMU_TELL(barrier_released());
    draw_order();
    for (unsigned warp = 0; warp * 32 < size_; ++warp) make_ready(warp, warps_[warp].live);
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
    if (++arrived_ == live_) release_barrier();
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

// Says where a kernel died before the process dies of it: writes one line and lets the signal take its course.

inline struct sigaction previous_action[NSIG];

inline void describe_fault(const char* what) {
    char line[512];
    char place[64] = "";  // in a second body a thread is a turn of a loop, whose number nobody keeps
    uint3 thread = worker->current().index;
    if (!worker->has_whole_block()) snprintf(place, sizeof place, " thread (%u,%u,%u)", thread.x, thread.y, thread.z);
    int length = snprintf(line, sizeof line, "emulated device: %s in kernel %s, block (%u,%u,%u)%s\n", what, worker->launch()->name,
                          blockIdx.x, blockIdx.y, blockIdx.z, place);
    if (length > static_cast<int>(sizeof line)) length = sizeof line;
    if (write(2, line, static_cast<size_t>(length)) < 0) return;
}

#ifdef EMU_SANITIZE
// Where the instruction that faulted stands; null where the signal is none of an access, or of one that is misaligned.
inline const void* faulting_code(int signal_number, const siginfo_t* details, void* context) {
    if (signal_number == SIGFPE || details->si_code == SI_KERNEL || !context) return nullptr;
    return reinterpret_cast<const void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
}
#endif

inline void on_fault(int signal_number, siginfo_t* details, void* context) {
    static_cast<void>(details), static_cast<void>(context);
    if (worker && worker->in_kernel())
        describe_fault(signal_number == SIGFPE ? "integer division by zero" : "illegal address");
    if (worker && worker->in_kernel()) EMU_TELL(faulted(details->si_addr, faulting_code(signal_number, details, context)));
    // The instruction runs again under whatever was there before us: nothing is hidden.
    sigaction(signal_number, &previous_action[signal_number], nullptr);
}

// The handler needs a stack of its own: the fault may be the overflow of a thread's stack.
inline void watch_faults() {
    static constexpr size_t alternate_bytes = 64 * 1024;
    stack_t present{};
    if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE)) {
        stack_t alternate{};
        alternate.ss_sp = malloc(alternate_bytes);
        alternate.ss_size = alternate_bytes;
        sigaltstack(&alternate, nullptr);
    }
    static const bool installed = [] {
        struct sigaction action {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int signal_number : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal_number, &action, &previous_action[signal_number]);
        return true;
    }();
    (void)installed;
}

[[noreturn]] void trap(const char* what);

}  // namespace emu
