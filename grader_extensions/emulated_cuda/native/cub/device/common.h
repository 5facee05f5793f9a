// What the operations over the whole device share: the protocol of two calls, and work that takes its turn in the stream.
#pragma once

#include "../types.h"

namespace cub::emulated {

// The first call, without storage, only says how much it takes; nothing of it is used, but a kernel that passes it on must have some.
template <class Work>
cudaError_t in_two_calls(void* storage, size_t& bytes, cudaStream_t stream, Work work) {
    if (!storage) {
        bytes = 256;
        return cudaSuccess;
    }
    if (bytes < 256) return emu::report(cudaErrorInvalidValue);
    emu::enqueue(stream, work);
    return cudaPeekAtLastError();
}

template <class Iterator>
using ValueOf = std::remove_cv_t<typename std::iterator_traits<Iterator>::value_type>;

// What an output takes; of an iterator that swallows everything, what is given.
template <class Iterator, class Fallback>
struct OutputOf {
    using Listed = typename std::iterator_traits<Iterator>::value_type;
    using type = std::conditional_t<std::is_void_v<Listed>, Fallback, Listed>;
};
template <class Iterator, class Fallback>
using OutputValue = std::remove_cv_t<typename OutputOf<Iterator, Fallback>::type>;

template <class Operation, class A, class B>
using Accumulated = std::decay_t<std::invoke_result_t<Operation, A, B>>;

// By halves: as many additions, but the rounding errors of a tree.
template <class T, class At, class Operation>
T reduce_range(size_t first, size_t count, At at, Operation operation) {
    if (count > 64) {
        size_t half = count / 2;
        return operation(reduce_range<T>(first, half, at, operation), reduce_range<T>(first + half, count - half, at, operation));
    }
    T total = at(first);
    for (size_t i = 1; i < count; ++i) total = operation(total, static_cast<T>(at(first + i)));
    return total;
}

// Calls put(i, exclusive, inclusive) for every i in order; tiles keep the rounding errors of sums small.
template <class T, class At, class Operation, class Put>
void scan_range(size_t count, bool has_first, T first, At at, Operation operation, Put put) {
    constexpr size_t tile = 256;
    T before = first;
    bool any = has_first;
    for (size_t start = 0; start < count; start += tile) {
        T inside{};
        T running = before;
        for (size_t i = start; i < count && i < start + tile; ++i) {
            T value = at(i);
            T exclusive = running;
            inside = i == start ? value : static_cast<T>(operation(inside, value));
            running = any ? static_cast<T>(operation(before, inside)) : inside;
            put(i, exclusive, running);
        }
        before = running;
        any = true;
    }
}

}  // namespace cub::emulated
