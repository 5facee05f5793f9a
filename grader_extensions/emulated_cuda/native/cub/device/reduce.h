// cub::DeviceReduce and DeviceSegmentedReduce.
#pragma once

#include "common.h"

namespace cub {

namespace emulated {

template <class Out, class In, class Operation, class First>
Accumulated<Operation, First, ValueOf<In>> reduce_from(In in, size_t begin, size_t end, Operation operation, First first) {
    using T = Accumulated<Operation, First, ValueOf<In>>;
    if (begin >= end) return static_cast<T>(first);
    return operation(static_cast<T>(first), reduce_range<T>(begin, end - begin, [&](size_t i) { return static_cast<T>(in[i]); }, operation));
}

template <class T>
T lowest() { return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest(); }
template <class T>
T highest() { return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max(); }

// The pair of the best value and the first place where it stands.
template <class Pair, class In, class Better>
Pair best_of(In in, size_t begin, size_t end, Better better, decltype(Pair::value) none) {
    Pair best;
    best.key = begin < end ? 0 : 1;
    best.value = begin < end ? static_cast<decltype(Pair::value)>(in[begin]) : none;
    for (size_t i = begin + 1; i < end; ++i)
        if (better(in[i], best.value)) {
            best.key = static_cast<decltype(Pair::key)>(i - begin);
            best.value = in[i];
        }
    return best;
}

}  // namespace emulated

struct DeviceReduce {
    template <class In, class Out, class Operation, class T, class Count>
    static cudaError_t Reduce(void* storage, size_t& bytes, In in, Out out, Count count, Operation operation, T first, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            *out = emulated::reduce_from<Out>(in, 0, static_cast<size_t>(count), operation, first);
        });
    }
    template <class In, class Out, class Count>
    static cudaError_t Sum(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using T = emulated::OutputValue<Out, emulated::ValueOf<In>>;
        return Reduce(storage, bytes, in, out, count, cub::Sum(), T{}, stream);
    }
    template <class In, class Out, class Count>
    static cudaError_t Min(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        return Reduce(storage, bytes, in, out, count, cub::Min(), emulated::highest<emulated::ValueOf<In>>(), stream);
    }
    template <class In, class Out, class Count>
    static cudaError_t Max(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        return Reduce(storage, bytes, in, out, count, cub::Max(), emulated::lowest<emulated::ValueOf<In>>(), stream);
    }
    template <class In, class Out, class Count>
    static cudaError_t ArgMin(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using Pair = emulated::OutputValue<Out, KeyValuePair<int, emulated::ValueOf<In>>>;
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            auto less = [](const auto& a, const auto& b) { return a < b; };
            *out = emulated::best_of<Pair>(in, 0, static_cast<size_t>(count), less, emulated::highest<emulated::ValueOf<In>>());
        });
    }
    template <class In, class Out, class Count>
    static cudaError_t ArgMax(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using Pair = emulated::OutputValue<Out, KeyValuePair<int, emulated::ValueOf<In>>>;
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            auto more = [](const auto& a, const auto& b) { return b < a; };
            *out = emulated::best_of<Pair>(in, 0, static_cast<size_t>(count), more, emulated::lowest<emulated::ValueOf<In>>());
        });
    }
    template <class In, class Out, class Count, class Operation, class Transform, class T>
    static cudaError_t TransformReduce(void* storage, size_t& bytes, In in, Out out, Count count, Operation operation, Transform transform, T first,
                                       cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            T total = first;
            if (count > 0)
                total = operation(first, emulated::reduce_range<T>(0, static_cast<size_t>(count), [&](size_t i) { return static_cast<T>(transform(in[i])); }, operation));
            *out = total;
        });
    }
    template <class Keys, class Unique, class Values, class Aggregates, class Runs, class Operation, class Count>
    static cudaError_t ReduceByKey(void* storage, size_t& bytes, Keys keys, Unique unique, Values values, Aggregates aggregates, Runs runs,
                                   Operation operation, Count count, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            size_t found = 0, total = static_cast<size_t>(count);
            for (size_t i = 0; i < total; ++found) {
                size_t end = i + 1;
                while (end < total && keys[end] == keys[i]) ++end;
                unique[found] = keys[i];
                using T = emulated::ValueOf<Values>;
                aggregates[found] = emulated::reduce_range<T>(i, end - i, [&](size_t at) { return static_cast<T>(values[at]); }, operation);
                i = end;
            }
            *runs = static_cast<emulated::ValueOf<Runs>>(found);
        });
    }
};

struct DeviceSegmentedReduce {
    template <class In, class Out, class Begins, class Ends, class Operation, class T>
    static cudaError_t Reduce(void* storage, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends, Operation operation, T first,
                              cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            for (int64_t s = 0; s < segments; ++s)
                out[s] = emulated::reduce_from<Out>(in, static_cast<size_t>(begins[s]), static_cast<size_t>(ends[s]), operation, first);
        });
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t Sum(void* storage, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends, cudaStream_t stream = nullptr) {
        using T = emulated::OutputValue<Out, emulated::ValueOf<In>>;
        return Reduce(storage, bytes, in, out, segments, begins, ends, cub::Sum(), T{}, stream);
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t Min(void* storage, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends, cudaStream_t stream = nullptr) {
        return Reduce(storage, bytes, in, out, segments, begins, ends, cub::Min(), emulated::highest<emulated::ValueOf<In>>(), stream);
    }
    template <class In, class Out, class Begins, class Ends>
    static cudaError_t Max(void* storage, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends, cudaStream_t stream = nullptr) {
        return Reduce(storage, bytes, in, out, segments, begins, ends, cub::Max(), emulated::lowest<emulated::ValueOf<In>>(), stream);
    }
};

}  // namespace cub
