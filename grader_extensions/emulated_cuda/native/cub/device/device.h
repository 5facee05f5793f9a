// cub::DeviceReduce, DeviceScan, DeviceSelect, DeviceRadixSort and the other operations over the whole device.
#pragma once

#include "../types.h"

namespace cub {

// What they share: the protocol of two calls, and work that takes its turn in the stream.
namespace emulated {

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
Pair best_of(In in, size_t count, Better better, decltype(Pair::value) none) {
    Pair best;
    best.key = count ? 0 : 1;
    best.value = count ? static_cast<decltype(Pair::value)>(in[0]) : none;
    for (size_t i = 1; i < count; ++i)
        if (better(in[i], best.value)) {
            best.key = static_cast<decltype(Pair::key)>(i);
            best.value = in[i];
        }
    return best;
}

}  // namespace emulated

#define EMU_UNPACK(...) __VA_ARGS__
#define EMU_REDUCTION(name, head, counts, operation, first, ...)                                                                        \
    template <class In, class Out, EMU_UNPACK head>                                                                                     \
    static cudaError_t name(void* storage, size_t& bytes, In in, Out out, EMU_UNPACK counts, cudaStream_t stream = nullptr) {           \
        return Reduce(storage, bytes, in, out, __VA_ARGS__, operation, first, stream);                                                  \
    }
#define EMU_REDUCTIONS(head, counts, ...)                                                                                               \
    EMU_REDUCTION(Sum, head, counts, cub::Sum(), (emulated::OutputValue<Out, emulated::ValueOf<In>>{}), __VA_ARGS__)                    \
    EMU_REDUCTION(Min, head, counts, cub::Min(), emulated::highest<emulated::ValueOf<In>>(), __VA_ARGS__)                               \
    EMU_REDUCTION(Max, head, counts, cub::Max(), emulated::lowest<emulated::ValueOf<In>>(), __VA_ARGS__)

struct DeviceReduce {
    template <class In, class Out, class Operation, class T, class Count>
    static cudaError_t Reduce(void* storage, size_t& bytes, In in, Out out, Count count, Operation operation, T first, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            *out = emulated::reduce_from<Out>(in, 0, static_cast<size_t>(count), operation, first);
        });
    }
    EMU_REDUCTIONS((class Count), (Count count), count)
#define EMU_ARG(name, better, none)                                                                                              \
    template <class In, class Out, class Count>                                                                                  \
    static cudaError_t name(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {          \
        using Pair = emulated::OutputValue<Out, KeyValuePair<int, emulated::ValueOf<In>>>;                                       \
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {                                                    \
            auto is_better = [](const auto& a, const auto& b) { return better; };                                                \
            *out = emulated::best_of<Pair>(in, static_cast<size_t>(count), is_better, emulated::none<emulated::ValueOf<In>>());  \
        });                                                                                                                      \
    }
    EMU_ARG(ArgMin, a < b, highest)
    EMU_ARG(ArgMax, b < a, lowest)
#undef EMU_ARG
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
    EMU_REDUCTIONS((class Begins, class Ends), (int64_t segments, Begins begins, Ends ends), segments, begins, ends)
};

namespace emulated {

template <class T, class In, class Out, class Operation, class Count>
cudaError_t scan(void* storage, size_t& bytes, In in, Out out, Operation operation, bool inclusive, bool has_first, T first, Count count,
                 cudaStream_t stream) {
    return in_two_calls(storage, bytes, stream, [=]() mutable {
        auto at = [&](size_t i) { return static_cast<T>(in[i]); };
        scan_range<T>(static_cast<size_t>(count), has_first, first, at, operation, [&](size_t i, const T& before, const T& with) {
            out[i] = inclusive ? with : before;
        });
    });
}

template <class T, class Keys, class In, class Out, class Operation, class Count>
cudaError_t scan_by_key(void* storage, size_t& bytes, Keys keys, In in, Out out, Operation operation, bool inclusive, bool has_first, T first,
                        Count count, cudaStream_t stream) {
    return in_two_calls(storage, bytes, stream, [=]() mutable {
        for (size_t i = 0, end, total = static_cast<size_t>(count); i < total; i = end) {
            for (end = i + 1; end < total && keys[end] == keys[i];) ++end;
            auto at = [&](size_t k) { return static_cast<T>(in[i + k]); };
            scan_range<T>(end - i, has_first, first, at, operation, [&](size_t k, const T& before, const T& with) {
                out[i + k] = inclusive ? with : before;
            });
        }
    });
}

}  // namespace emulated

struct DeviceScan {
#define EMU_SCAN(name, head, parameters, T, operation, inclusive, has_first, first)                                                     \
    template <class In, class Out, EMU_UNPACK head, class Count>                                                                        \
    static cudaError_t name(void* storage, size_t& bytes, In in, Out out, EMU_UNPACK parameters Count count, cudaStream_t stream = nullptr) { \
        return emulated::scan<EMU_UNPACK T>(storage, bytes, in, out, operation, inclusive, has_first, first, count, stream);            \
    }
#define EMU_SUM(name, inclusive)                                                                                                        \
    EMU_SCAN(name, (int = 0), (), (emulated::ValueOf<In>), cub::Sum(), inclusive, !inclusive, emulated::ValueOf<In>{})                  \
    template <class Keys, class In, class Out, class Count>                                                                             \
    static cudaError_t name##ByKey(void* storage, size_t& bytes, Keys keys, In in, Out out, Count count, cudaStream_t stream = nullptr) { \
        using T = emulated::ValueOf<In>;                                                                                                \
        return emulated::scan_by_key<T>(storage, bytes, keys, in, out, cub::Sum(), inclusive, !inclusive, T{}, count, stream);          \
    }
#define EMU_SCAN_FROM(name, inclusive)                                                                                                  \
    EMU_SCAN(name, (class Operation, class First), (Operation operation, First first, ),                                                \
             (emulated::Accumulated<Operation, First, emulated::ValueOf<In>>), operation, inclusive, true, first)
    EMU_SUM(ExclusiveSum, false)
    EMU_SUM(InclusiveSum, true)
    EMU_SCAN_FROM(ExclusiveScan, false)
    EMU_SCAN_FROM(InclusiveScanInit, true)
    EMU_SCAN(InclusiveScan, (class Operation), (Operation operation, ), (emulated::ValueOf<In>), operation, true, false, emulated::ValueOf<In>{})
#undef EMU_SCAN_FROM
#undef EMU_SUM
#undef EMU_SCAN
};

namespace emulated {

struct Select {
    template <class In, class Out, class Counted, class Chosen>
    static void run(In in, Out out, Counted counted, size_t count, Chosen chosen) {
        size_t found = 0;
        for (size_t i = 0; i < count; ++i)
            if (chosen(i)) out[found++] = in[i];
        *counted = static_cast<ValueOf<Counted>>(found);
    }
};
// What is not chosen stands at the end, in reverse order.
struct Partition {
    template <class In, class Out, class Counted, class Chosen>
    static void run(In in, Out out, Counted counted, size_t count, Chosen chosen) {
        size_t front = 0, back = count;
        for (size_t i = 0; i < count; ++i) out[chosen(i) ? front++ : --back] = in[i];
        *counted = static_cast<ValueOf<Counted>>(front);
    }
};

template <class Way>
struct ByChoice {
    template <class In, class Out, class Counted, class Count, class Predicate>
    static cudaError_t If(void* storage, size_t& bytes, In in, Out out, Counted counted, Count count, Predicate predicate, cudaStream_t stream = nullptr) {
        return in_two_calls(storage, bytes, stream, [=]() mutable {
            Way::run(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return predicate(in[i]); });
        });
    }
    template <class In, class Flags, class Out, class Counted, class Count>
        requires(!std::is_same_v<Count, cudaStream_t>)
    static cudaError_t Flagged(void* storage, size_t& bytes, In in, Flags flags, Out out, Counted counted, Count count, cudaStream_t stream = nullptr) {
        return in_two_calls(storage, bytes, stream, [=]() mutable {
            Way::run(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return static_cast<bool>(flags[i]); });
        });
    }
};

}  // namespace emulated

struct DevicePartition : emulated::ByChoice<emulated::Partition> {};
struct DeviceSelect : emulated::ByChoice<emulated::Select> {
    template <class In, class Out, class Counted, class Count>
    static cudaError_t Unique(void* storage, size_t& bytes, In in, Out out, Counted counted, Count count, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            emulated::Select::run(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return i == 0 || !(in[i] == in[i - 1]); });
        });
    }
};

struct DeviceRunLengthEncode {
    template <class In, class Unique, class Lengths, class Runs, class Count>
    static cudaError_t Encode(void* storage, size_t& bytes, In in, Unique unique, Lengths lengths, Runs runs, Count count, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            size_t found = 0, total = static_cast<size_t>(count);
            for (size_t i = 0, end; i < total; i = end, ++found) {
                for (end = i + 1; end < total && in[end] == in[i];) ++end;
                unique[found] = in[i];
                lengths[found] = static_cast<emulated::ValueOf<Lengths>>(end - i);
            }
            *runs = static_cast<emulated::ValueOf<Runs>>(found);
        });
    }
};

struct DeviceHistogram {
    template <class In, class Counter, class Level, class Count>
    static cudaError_t HistogramEven(void* storage, size_t& bytes, In samples, Counter* counts, int levels, Level lower, Level upper, Count count,
                                     cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            for (int bin = 0; bin < levels - 1; ++bin) counts[bin] = 0;
            for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
                auto sample = samples[i];
                if (!(sample >= lower && sample < upper)) continue;
                int bin;
                if constexpr (std::is_integral_v<Level>) {
                    bin = static_cast<int>((static_cast<uint64_t>(sample) - static_cast<uint64_t>(lower)) * static_cast<uint64_t>(levels - 1) /
                                           (static_cast<uint64_t>(upper) - static_cast<uint64_t>(lower)));
                } else {
                    bin = static_cast<int>((sample - lower) * (static_cast<Level>(levels - 1) / (upper - lower)));
                }
                if (bin < levels - 1) ++counts[bin];
            }
        });
    }
    template <class In, class Counter, class Level, class Count>
    static cudaError_t HistogramRange(void* storage, size_t& bytes, In samples, Counter* counts, int levels, const Level* bounds, Count count,
                                      cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            for (int bin = 0; bin < levels - 1; ++bin) counts[bin] = 0;
            for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
                auto bin = std::upper_bound(bounds, bounds + levels, static_cast<Level>(samples[i])) - bounds - 1;
                if (bin >= 0 && bin < levels - 1) ++counts[bin];
            }
        });
    }
};

struct DeviceFor {
    template <class Count, class Function>
    static cudaError_t Bulk(Count count, Function function, cudaStream_t stream = nullptr) {
        emu::enqueue(stream, [=]() mutable {
            for (Count i = 0; i < count; ++i) function(i);
        });
        return cudaPeekAtLastError();
    }
    template <class In, class Count, class Function>
    static cudaError_t ForEachN(In in, Count count, Function function, cudaStream_t stream = nullptr) {
        return Bulk(count, [=](Count i) mutable { function(in[i]); }, stream);
    }
    template <class In, class Function>
    static cudaError_t ForEach(In first, In last, Function function, cudaStream_t stream = nullptr) {
        return ForEachN(first, last - first, function, stream);
    }
};

namespace emulated {

template <class Key, class Value>
void sort_range(const Key* keys, Key* sorted, const Value* values, Value* moved, size_t count, int begin, int end, bool descending) {
    auto order = sorted_order<Key>(count, [&](size_t i) -> const Key& { return keys[i]; }, begin, end, descending);
    std::vector<Key> out(count);
    std::vector<Value> out_values(values ? count : 0);
    for (size_t i = 0; i < count; ++i) {
        out[i] = keys[order[i]];
        if (values) out_values[i] = values[order[i]];
    }
    std::copy(out.begin(), out.end(), sorted);
    std::copy(out_values.begin(), out_values.end(), moved);
}

template <class Key, class Value>
cudaError_t radix_sort(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved, int64_t count, int begin, int end,
                       bool descending, cudaStream_t stream) {
    return in_two_calls(storage, bytes, stream,
                        [=] { sort_range(keys, sorted, values, moved, static_cast<size_t>(count), begin, end, descending); });
}

// The result lies in the other buffer of each pair, which becomes the current one.
template <class Key, class Value>
cudaError_t radix_sort(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>* values, int64_t count, int begin, int end,
                       bool descending, cudaStream_t stream) {
    const Value* from = values ? values->Current() : nullptr;
    Value* to = values ? values->Alternate() : nullptr;
    cudaError_t done = radix_sort<Key, Value>(storage, bytes, keys.Current(), keys.Alternate(), from, to, count, begin, end, descending, stream);
    if (storage) keys.selector ^= 1;
    if (storage && values) values->selector ^= 1;
    return done;
}

template <class Key, class Value, class Begins, class Ends>
cudaError_t sort_segments(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved, int64_t segments, Begins begins,
                          Ends ends, int begin, int end, bool descending, cudaStream_t stream) {
    return in_two_calls(storage, bytes, stream, [=]() mutable {
        for (int64_t s = 0; s < segments; ++s) {
            auto first = static_cast<size_t>(begins[s]), last = static_cast<size_t>(ends[s]);
            if (first < last)
                sort_range(keys + first, sorted + first, values ? values + first : nullptr, values ? moved + first : nullptr, last - first, begin, end, descending);
        }
    });
}

template <class Keys, class SortedKeys, class Values, class SortedValues, class Less>
void merge_sort(Keys keys, SortedKeys sorted, Values values, SortedValues moved, size_t count, Less less, bool pairs) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return less(keys[a], keys[b]); });
    std::vector<ValueOf<Keys>> out(count);
    std::vector<ValueOf<Values>> out_values(pairs ? count : 0);
    for (size_t i = 0; i < count; ++i) {
        out[i] = keys[order[i]];
        if (pairs) out_values[i] = values[order[i]];
    }
    std::copy(out.begin(), out.end(), sorted);
    std::copy(out_values.begin(), out_values.end(), moved);
}

}  // namespace emulated

struct DeviceRadixSort {
#define EMU_RADIX(suffix, descending)                                                                                                                 \
    template <class Key, class Count>                                                                                                                 \
    static cudaError_t SortKeys##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, Count count, int begin = 0,                       \
                                        int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                                                   \
        return emulated::radix_sort<Key, NullType>(storage, bytes, keys, sorted, nullptr, nullptr, count, begin, end, descending, stream);            \
    }                                                                                                                                                 \
    template <class Key, class Count>                                                                                                                 \
    static cudaError_t SortKeys##suffix(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, Count count, int begin = 0, int end = sizeof(Key) * 8, \
                                        cudaStream_t stream = nullptr) {                                                                              \
        return emulated::radix_sort<Key, NullType>(storage, bytes, keys, nullptr, count, begin, end, descending, stream);                             \
    }                                                                                                                                                 \
    template <class Key, class Value, class Count>                                                                                                    \
    static cudaError_t SortPairs##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved, Count count,  \
                                         int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                                   \
        return emulated::radix_sort<Key, Value>(storage, bytes, keys, sorted, values, moved, count, begin, end, descending, stream);                  \
    }                                                                                                                                                 \
    template <class Key, class Value, class Count>                                                                                                    \
    static cudaError_t SortPairs##suffix(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>& values, Count count,             \
                                         int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                                   \
        return emulated::radix_sort<Key, Value>(storage, bytes, keys, &values, count, begin, end, descending, stream);                                \
    }
    EMU_RADIX(, false)
    EMU_RADIX(Descending, true)
#undef EMU_RADIX
};

#define EMU_SEGMENTED(prefix, suffix, descending, bits, given_bits)                                                                               \
    template <class Key, class Begins, class Ends>                                                                                                \
    static cudaError_t prefix##SortKeys##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, int64_t, int64_t segments,            \
                                                Begins begins, Ends ends, EMU_UNPACK bits cudaStream_t stream = nullptr) {                        \
        return emulated::sort_segments<Key, NullType>(storage, bytes, keys, sorted, nullptr, nullptr, segments, begins, ends,                     \
                                                      EMU_UNPACK given_bits, descending, stream);                                                 \
    }                                                                                                                                             \
    template <class Key, class Value, class Begins, class Ends>                                                                                   \
    static cudaError_t prefix##SortPairs##suffix(void* storage, size_t& bytes, const Key* keys, Key* sorted, const Value* values, Value* moved,   \
                                                 int64_t, int64_t segments, Begins begins, Ends ends, EMU_UNPACK bits cudaStream_t stream = nullptr) { \
        return emulated::sort_segments<Key, Value>(storage, bytes, keys, sorted, values, moved, segments, begins, ends, EMU_UNPACK given_bits,    \
                                                   descending, stream);                                                                           \
    }

struct DeviceSegmentedRadixSort {
    EMU_SEGMENTED(, , false, (int begin = 0, int end = sizeof(Key) * 8, ), (begin, end))
    EMU_SEGMENTED(, Descending, true, (int begin = 0, int end = sizeof(Key) * 8, ), (begin, end))
};
struct DeviceSegmentedSort {
    EMU_SEGMENTED(, , false, (), (0, sizeof(Key) * 8))
    EMU_SEGMENTED(, Descending, true, (), (0, sizeof(Key) * 8))
    EMU_SEGMENTED(Stable, , false, (), (0, sizeof(Key) * 8))
    EMU_SEGMENTED(Stable, Descending, true, (), (0, sizeof(Key) * 8))
};
#undef EMU_SEGMENTED
#undef EMU_UNPACK

struct DeviceMergeSort {
    template <class Keys, class Count, class Less>
    static cudaError_t SortKeys(void* storage, size_t& bytes, Keys keys, Count count, Less less, cudaStream_t stream = nullptr) {
        return SortKeysCopy(storage, bytes, keys, keys, count, less, stream);
    }
    template <class Keys, class Sorted, class Count, class Less>
    static cudaError_t SortKeysCopy(void* storage, size_t& bytes, Keys keys, Sorted sorted, Count count, Less less, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=] {
            NullType* none = nullptr;
            emulated::merge_sort(keys, sorted, none, none, static_cast<size_t>(count), less, false);
        });
    }
    template <class Keys, class Values, class Count, class Less>
    static cudaError_t SortPairs(void* storage, size_t& bytes, Keys keys, Values values, Count count, Less less, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream,
                                      [=] { emulated::merge_sort(keys, keys, values, values, static_cast<size_t>(count), less, true); });
    }
    template <class... Arguments>
    static cudaError_t StableSortKeys(void* storage, size_t& bytes, Arguments... arguments) {
        return SortKeys(storage, bytes, arguments...);
    }
    template <class... Arguments>
    static cudaError_t StableSortPairs(void* storage, size_t& bytes, Arguments... arguments) {
        return SortPairs(storage, bytes, arguments...);
    }
};

}  // namespace cub
