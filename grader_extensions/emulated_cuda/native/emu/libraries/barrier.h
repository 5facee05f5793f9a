// cuda::barrier and cuda::pipeline.  A thread that waits lets the others of its block run until the phase ends.
#pragma once

#include <utility>

#include "async_copy.h"
#include "atomic.h"

namespace cuda {

namespace emulated {
struct NoCompletion {
    void operator()() const {}
};
}  // namespace emulated

template <thread_scope Scope, class Completion = emulated::NoCompletion>
class barrier {
public:
    using arrival_token = uint64_t;

    barrier() = default;
    barrier(ptrdiff_t count, Completion completion = {}) : word_(start(static_cast<uint64_t>(count))), completion_(completion) {}
    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;
    static constexpr ptrdiff_t max() { return counts - 1; }

    [[nodiscard]] arrival_token arrive(ptrdiff_t count = 1) { return take(static_cast<uint64_t>(count), 0); }
    void wait(arrival_token&& token) const {
        while (!done(token)) emu::let_others_run();
    }
    void wait_parity(bool parity) const {
        while (!done_parity(parity)) emu::let_others_run();
    }
    void arrive_and_wait() { wait(arrive()); }
    void arrive_and_drop() { (void)take(1, 1); }
    template <class Duration>
    bool try_wait_for(arrival_token&& token, const Duration&) const { return done(token) || (emu::let_others_run(), done(token)); }
    template <class Duration>
    bool try_wait_parity_for(bool parity, const Duration&) const {
        return done_parity(parity) || (emu::let_others_run(), done_parity(parity));
    }
    template <class Time>
    bool try_wait_until(arrival_token&& token, const Time&) const { return try_wait_for(::std::move(token), 0); }

    friend void init(barrier* where, ptrdiff_t count) { new (where) barrier(count); }
    friend void init(barrier* where, ptrdiff_t count, Completion completion) { new (where) barrier(count, completion); }

    // How many phases have ended, modulo 2^22.
    uint64_t phases() const { return __atomic_load_n(&word_, __ATOMIC_SEQ_CST) >> 42; }

private:
    // From the low end: 21 bits of arrivals still missing, 21 bits of arrivals in a phase, and the number of phases.
    static constexpr uint64_t counts = uint64_t{1} << 21;
    static constexpr uint64_t start(uint64_t count) { return count << 21 | count; }

    bool done(arrival_token token) const { return phases() != token; }
    bool done_parity(bool parity) const { return (phases() & 1) != parity; }
    arrival_token take(uint64_t count, uint64_t dropped) {
        uint64_t old = __atomic_load_n(&word_, __ATOMIC_SEQ_CST), next;
        bool last;
        do {
            uint64_t missing = old & (counts - 1), expected = (old >> 21 & (counts - 1)) - dropped, phase = old >> 42;
            if (count > missing) emu::trap("more arrivals at a cuda::barrier than it expects");
            last = missing == count;
            // Its completion runs before anybody sees that the phase has ended.
            if (last) completion_();
            next = last ? (phase + 1) << 42 | start(expected) : phase << 42 | expected << 21 | (missing - count);
        } while (!__atomic_compare_exchange_n(&word_, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
        return old >> 42;
    }

    uint64_t word_;
    [[no_unique_address]] Completion completion_;
};

// cuda::pipeline.  A stage has a barrier that producers arrive at and one that consumers arrive at; every thread counts its own turns.

enum class pipeline_role { producer, consumer };

template <thread_scope Scope, uint8_t Stages>
struct pipeline_shared_state {
    barrier<Scope> produced[Stages], consumed[Stages];
    unsigned producers;

    pipeline_shared_state() = default;
    pipeline_shared_state(const pipeline_shared_state&) = delete;
    void start(size_t producing, size_t consuming) {
        for (unsigned stage = 0; stage < Stages; ++stage) {
            init(&produced[stage], static_cast<ptrdiff_t>(producing));
            init(&consumed[stage], static_cast<ptrdiff_t>(consuming));
        }
    }
};

template <thread_scope Scope>
class pipeline {
public:
    pipeline(barrier<Scope>* produced, barrier<Scope>* consumed, unsigned stages) : produced_(produced), consumed_(consumed), stages_(stages) {}
    pipeline(pipeline&&) = default;
    pipeline(const pipeline&) = delete;
    pipeline& operator=(const pipeline&) = delete;

    // Waits until the consumers have released what this stage held a round ago.
    void producer_acquire() {
        if (head_ >= stages_) wait(consumed_[head_ % stages_], head_ / stages_ - 1);
    }
    void producer_commit() { (void)produced_[head_++ % stages_].arrive(); }
    void consumer_wait() { wait(produced_[tail_ % stages_], tail_ / stages_); }
    template <class Duration>
    bool consumer_wait_for(const Duration&) {
        if (ended(produced_[tail_ % stages_], tail_ / stages_)) return true;
        emu::let_others_run();
        return ended(produced_[tail_ % stages_], tail_ / stages_);
    }
    void consumer_release() { (void)consumed_[tail_++ % stages_].arrive(); }
    bool quit() { return true; }

private:
    static bool ended(const barrier<Scope>& stage, uint64_t phase) { return stage.phases() != phase % (uint64_t{1} << 22); }
    static void wait(const barrier<Scope>& stage, uint64_t phase) {
        while (!ended(stage, phase)) emu::let_others_run();
    }

    barrier<Scope>*produced_, *consumed_;
    uint64_t stages_, head_ = 0, tail_ = 0;
};

// A thread's own: its copies are done when they are asked for.
template <>
class pipeline<thread_scope_thread> {
public:
    pipeline() = default;
    pipeline(pipeline&&) = default;
    pipeline(const pipeline&) = delete;
    pipeline& operator=(const pipeline&) = delete;
    void producer_acquire() {}
    void producer_commit() {}
    void consumer_wait() {}
    template <class Duration>
    bool consumer_wait_for(const Duration&) { return true; }
    void consumer_release() {}
    bool quit() { return true; }
};

inline pipeline<thread_scope_thread> make_pipeline() { return {}; }

template <class Group, thread_scope Scope, uint8_t Stages>
pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state) {
    if (group.thread_rank() == 0) state->start(group.num_threads(), group.num_threads());
    group.sync();
    return {state->produced, state->consumed, Stages};
}

template <class Group, thread_scope Scope, uint8_t Stages>
pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state, size_t producers) {
    if (group.thread_rank() == 0) state->start(producers, group.num_threads() - producers);
    group.sync();
    return {state->produced, state->consumed, Stages};
}

template <class Group, thread_scope Scope, uint8_t Stages>
pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state, pipeline_role role) {
    if (group.thread_rank() == 0) state->producers = 0;
    group.sync();
    if (role == pipeline_role::producer) atomicAdd(&state->producers, 1u);
    group.sync();
    return make_pipeline(group, state, size_t{state->producers});
}

template <uint8_t Prior>
void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>&) {}
template <thread_scope Scope>
void pipeline_producer_commit(pipeline<thread_scope_thread>&, barrier<Scope>&) {}

// A copy belongs to a barrier or a pipeline, whose wait finds it done.
template <class Owner>
concept OwnsCopies = requires(Owner& owner) { owner.arrive(); } || requires(Owner& owner) { owner.producer_commit(); };

template <class Group, class T, class Size, OwnsCopies Owner>
async_contract_fulfillment memcpy_async(const Group& group, T* to, const T* from, Size bytes, Owner&) {
    emu::copy_share(to, from, bytes, group.thread_rank(), group.num_threads());
    return async_contract_fulfillment::async;
}
template <class T, class Size, OwnsCopies Owner>
async_contract_fulfillment memcpy_async(T* to, const T* from, Size bytes, Owner&) {
    memcpy(static_cast<void*>(to), from, bytes);
    return async_contract_fulfillment::async;
}

}  // namespace cuda
