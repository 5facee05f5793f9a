// cuda::barrier.  A waiting thread lets the others of its block run until the phase ends.
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

template <class Group, class T, class Size, thread_scope Scope, class Completion>
async_contract_fulfillment memcpy_async(const Group& group, T* to, const T* from, Size bytes, barrier<Scope, Completion>&) {
    emu::copy_share(to, from, bytes, group.thread_rank(), group.num_threads());
    return async_contract_fulfillment::async;
}
template <class T, class Size, thread_scope Scope, class Completion>
async_contract_fulfillment memcpy_async(T* to, const T* from, Size bytes, barrier<Scope, Completion>&) {
    memcpy(static_cast<void*>(to), from, bytes);
    return async_contract_fulfillment::async;
}

}  // namespace cuda
