// cuda::atomic and cuda::atomic_ref.  Every order is at least the one asked for.  The sanitizer is told of relaxed ones and of the scope
// of a block: those order less.
#pragma once

#include <cuda_runtime.h>

// cuda::thread_scope and cuda::memory_order: the toolkit's own where it is installed, because its other headers use them too.
#if __has_include(<cuda/std/__atomic/scopes.h>)
#include <cuda/std/__atomic/order.h>
#include <cuda/std/__atomic/scopes.h>
#else
namespace cuda {
namespace std {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread = 10 };
enum class memory_order { relaxed, consume, acquire, release, acq_rel, seq_cst };
inline constexpr memory_order memory_order_relaxed = memory_order::relaxed;
inline constexpr memory_order memory_order_consume = memory_order::consume;
inline constexpr memory_order memory_order_acquire = memory_order::acquire;
inline constexpr memory_order memory_order_release = memory_order::release;
inline constexpr memory_order memory_order_acq_rel = memory_order::acq_rel;
inline constexpr memory_order memory_order_seq_cst = memory_order::seq_cst;
}  // namespace std
using std::thread_scope;
using std::thread_scope_system, std::thread_scope_device, std::thread_scope_block, std::thread_scope_thread;
using std::memory_order;
using std::memory_order_relaxed;
using std::memory_order_consume;
using std::memory_order_acquire;
using std::memory_order_release;
using std::memory_order_acq_rel;
using std::memory_order_seq_cst;
}  // namespace cuda
#endif

namespace emu EMU_HIDDEN {

// One turn of a loop that waits for other threads: those of the block run, and other blocks' OS threads.
inline void let_others_run() {
    if (worker && worker->in_kernel()) worker->yield();
    sched_yield();
}

}  // namespace emu

namespace cuda {

EMU_INLINE void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
    if (order == memory_order_relaxed) return;
    scope == thread_scope_block || scope == thread_scope_thread ? __threadfence_block() : __threadfence();
}
inline void atomic_signal_fence(memory_order) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // namespace cuda

namespace emu EMU_HIDDEN {

// What both classes do to the value at an address.  Self has `T* address() const`.
template <class Self, class T, cuda::thread_scope scope>
class AtomicOperations {
    static_assert(sizeof(T) <= 8 && (sizeof(T) & (sizeof(T) - 1)) == 0, "the emulated device has atomics of 1, 2, 4 and 8 bytes");
    using Bits = typename BitsOf<T>::type;
    using Order = cuda::memory_order;
    using Difference = ::std::conditional_t<::std::is_pointer_v<T>, ptrdiff_t, T>;

    T* at() const { return static_cast<const Self*>(this)->address(); }
    template <class Function>
    T change(Order order, Function next) const {
        count_atomic();
        cuda::atomic_thread_fence(order, scope);
        T old = update(at(), next);
        cuda::atomic_thread_fence(order, scope);
        return old;
    }

public:
    using value_type = T;
    static constexpr Order strongest = cuda::memory_order_seq_cst;
    static constexpr bool is_always_lock_free = true;

    bool is_lock_free() const { return true; }
    T load(Order = strongest) const {
        count_atomic();
        return __builtin_bit_cast(T, __atomic_load_n(reinterpret_cast<Bits*>(at()), __ATOMIC_SEQ_CST));
    }
    void store(T value, Order order = strongest) const { exchange(value, order); }
    T exchange(T value, Order order = strongest) const {
        cuda::atomic_thread_fence(order, scope);
        T old = exchange_value(at(), value);
        cuda::atomic_thread_fence(order, scope);
        return old;
    }
    bool compare_exchange_strong(T& expected, T value, Order order = strongest, Order = strongest) const {
        count_atomic();
        cuda::atomic_thread_fence(order, scope);
        auto seen = __builtin_bit_cast(Bits, expected), wanted = __builtin_bit_cast(Bits, value);
        if (__atomic_compare_exchange_n(reinterpret_cast<Bits*>(at()), &seen, wanted, false, EMU_SWAP_ORDER, EMU_SWAP_ORDER)) return true;
        expected = __builtin_bit_cast(T, seen);
        return false;
    }
    bool compare_exchange_weak(T& expected, T value, Order order = strongest, Order = strongest) const {
        return compare_exchange_strong(expected, value, order);
    }
    T fetch_add(Difference v, Order order = strongest) const { return change(order, [v](T old) { return static_cast<T>(old + v); }); }
    T fetch_sub(Difference v, Order order = strongest) const { return change(order, [v](T old) { return static_cast<T>(old - v); }); }
    T fetch_and(T v, Order order = strongest) const { return change(order, [v](T old) { return static_cast<T>(old & v); }); }
    T fetch_or(T v, Order order = strongest) const { return change(order, [v](T old) { return static_cast<T>(old | v); }); }
    T fetch_xor(T v, Order order = strongest) const { return change(order, [v](T old) { return static_cast<T>(old ^ v); }); }
    T fetch_min(T v, Order order = strongest) const { return change(order, [v](T old) { return v < old ? v : old; }); }
    T fetch_max(T v, Order order = strongest) const { return change(order, [v](T old) { return old < v ? v : old; }); }
    void wait(T old, Order = strongest) const {
        while (to_bits(load()) == to_bits(old)) let_others_run();
    }
    void notify_one() const {}
    void notify_all() const {}

    operator T() const { return load(); }
    T operator=(T value) const {
        store(value);
        return value;
    }
    T operator++() const { return static_cast<T>(fetch_add(1) + 1); }
    T operator--() const { return static_cast<T>(fetch_sub(1) - 1); }
    T operator++(int) const { return fetch_add(1); }
    T operator--(int) const { return fetch_sub(1); }
    T operator+=(Difference v) const { return static_cast<T>(fetch_add(v) + v); }
    T operator-=(Difference v) const { return static_cast<T>(fetch_sub(v) - v); }
    T operator&=(T v) const { return static_cast<T>(fetch_and(v) & v); }
    T operator|=(T v) const { return static_cast<T>(fetch_or(v) | v); }
    T operator^=(T v) const { return static_cast<T>(fetch_xor(v) ^ v); }
};

}  // namespace emu

namespace cuda {

template <class T, thread_scope Scope = thread_scope_system>
class atomic : public emu::AtomicOperations<atomic<T, Scope>, T, Scope> {
public:
    atomic() = default;
    constexpr atomic(T value) : value_(value) {}
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;
    using emu::AtomicOperations<atomic<T, Scope>, T, Scope>::operator=;
    T* address() const { return const_cast<T*>(&value_); }

private:
    alignas(sizeof(T)) T value_;
};

template <class T, thread_scope Scope = thread_scope_system>
class atomic_ref : public emu::AtomicOperations<atomic_ref<T, Scope>, T, Scope> {
public:
    static constexpr size_t required_alignment = sizeof(T);
    explicit atomic_ref(T& value) : address_(&value) {}
    atomic_ref(const atomic_ref&) = default;
    atomic_ref& operator=(const atomic_ref&) = delete;
    using emu::AtomicOperations<atomic_ref<T, Scope>, T, Scope>::operator=;
    T* address() const { return address_; }

private:
    T* address_;
};

class atomic_flag {
public:
    atomic_flag() = default;
    constexpr atomic_flag(bool value) : value_(value) {}
    bool test_and_set(memory_order = memory_order_seq_cst) { return value_.exchange(1) != 0; }
    bool test(memory_order = memory_order_seq_cst) const { return value_.load() != 0; }
    void clear(memory_order = memory_order_seq_cst) { value_.store(0); }

private:
    atomic<int> value_;
};

}  // namespace cuda
