// cub::DeviceReduce, DeviceScan, DeviceSelect, DeviceRadixSort and the other operations over the whole device.
#pragma once

#include <functional>

#include "types.h"

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
using OutputValue = std::conditional_t<std::is_void_v<ValueOf<Iterator>>, Fallback, ValueOf<Iterator>>;

template <class Operation, class A, class B>
using Accumulated = std::decay_t<std::invoke_result_t<Operation, A, B>>;

// By halves: as many additions, but the rounding errors of a tree.
template <class T, class In, class Operation>
T reduce_range(In in, size_t first, size_t count, Operation operation) {
    if (count > 64) {
        size_t half = count / 2;
        return operation(reduce_range<T>(in, first, half, operation), reduce_range<T>(in, first + half, count - half, operation));
    }
    T total = static_cast<T>(in[first]);
    for (size_t i = 1; i < count; ++i) total = operation(total, static_cast<T>(in[first + i]));
    return total;
}

template <class In, class Operation, class First>
auto reduce_from(In in, size_t begin, size_t end, Operation operation, First first) {
    using T = Accumulated<Operation, First, ValueOf<In>>;
    auto total = static_cast<T>(first);
    return begin < end ? static_cast<T>(operation(total, reduce_range<T>(in, begin, end - begin, operation))) : total;
}

template <class T>
T lowest() { return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest(); }
template <class T>
T highest() { return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max(); }

// Writes the pair of the best value and the first place where it stands.
template <class In, class Out, class Better>
void put_best(In in, Out out, size_t count, Better better, ValueOf<In> none) {
    OutputValue<Out, KeyValuePair<int, ValueOf<In>>> best;
    best.key = count ? 0 : 1;
    best.value = count ? ValueOf<In>(in[0]) : none;
    for (size_t i = 1; i < count; ++i)
        if (better(in[i], best.value)) best = {static_cast<decltype(best.key)>(i), in[i]};
    *out = best;
}

// Calls visit(number, begin, end) for each run of equal keys, and writes how many there are.
template <class Keys, class Runs, class Visit>
void visit_runs(Keys keys, size_t count, Runs runs, Visit visit) {
    size_t number = 0;
    for (size_t begin = 0, end; begin < count; begin = end, ++number) {
        for (end = begin + 1; end < count && keys[end] == keys[begin];) ++end;
        visit(number, begin, end);
    }
    *runs = static_cast<ValueOf<Runs>>(number);
}

template <class Keys, class Unique, class Values, class Aggregates, class Runs, class Operation>
void reduce_runs(Keys keys, Unique unique, Values values, Aggregates aggregates, Runs runs, Operation operation, size_t count) {
    visit_runs(keys, count, runs, [&](size_t number, size_t begin, size_t end) {
        unique[number] = keys[begin];
        aggregates[number] = reduce_range<ValueOf<Values>>(values, begin, end - begin, operation);
    });
}

template <class In, class Unique, class Lengths, class Runs>
void measure_runs(In in, Unique unique, Lengths lengths, Runs runs, size_t count) {
    visit_runs(in, count, runs, [&](size_t number, size_t begin, size_t end) {
        unique[number] = in[begin];
        lengths[number] = static_cast<ValueOf<Lengths>>(end - begin);
    });
}

// Tiles keep the rounding errors of sums small.
template <class T, class In, class Out, class Operation>
void scan(In in, Out out, size_t begin, size_t end, Operation operation, bool inclusive, std::optional<T> first) {
    constexpr size_t tile = 256;
    std::optional<T> before = first;
    for (size_t start = begin; start < end; start += tile) {
        T inside{}, running = before.value_or(T{});
        for (size_t i = start; i < end && i < start + tile; ++i) {
            T value = static_cast<T>(in[i]), exclusive = running;
            inside = i == start ? value : static_cast<T>(operation(inside, value));
            running = before ? static_cast<T>(operation(*before, inside)) : inside;
            out[i] = inclusive ? running : exclusive;
        }
        before = running;
    }
}

template <class Keys, class In, class Out>
void sum_by_key(Keys keys, In in, Out out, bool inclusive, size_t count) {
    size_t runs;
    visit_runs(keys, count, &runs, [&](size_t, size_t begin, size_t end) {
        using T = ValueOf<In>;
        scan<T>(in, out, begin, end, cub::Sum(), inclusive, inclusive ? std::optional<T>() : T{});
    });
}

}  // namespace emulated

// A call whose work is the last argument, an expression.
#define EMU_UNPACK(...) __VA_ARGS__
#define EMU_CALL(name, head, parameters, ...)                                                                                 \
    template <EMU_UNPACK head>                                                                                                \
    static cudaError_t name(void* storage, size_t& bytes, EMU_UNPACK parameters, cudaStream_t stream = nullptr) {             \
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable { __VA_ARGS__; });                                \
    }
#define EMU_REDUCTION(name, head, counts, operation, first, ...)                                                              \
    template <class In, class Out, EMU_UNPACK head>                                                                           \
    static cudaError_t name(void* storage, size_t& bytes, In in, Out out, EMU_UNPACK counts, cudaStream_t stream = nullptr) { \
        return Reduce(storage, bytes, in, out, __VA_ARGS__, operation, first, stream);                                        \
    }
#define EMU_REDUCTIONS(head, counts, ...)                                                                                     \
    EMU_REDUCTION(Sum, head, counts, cub::Sum(), (emulated::OutputValue<Out, emulated::ValueOf<In>>{}), __VA_ARGS__)          \
    EMU_REDUCTION(Min, head, counts, cub::Min(), emulated::highest<emulated::ValueOf<In>>(), __VA_ARGS__)                     \
    EMU_REDUCTION(Max, head, counts, cub::Max(), emulated::lowest<emulated::ValueOf<In>>(), __VA_ARGS__)

struct DeviceReduce {
    EMU_CALL(Reduce, (class In, class Out, class Operation, class T, class Count),
             (In in, Out out, Count count, Operation operation, T first),
             *out = emulated::reduce_from(in, 0, static_cast<size_t>(count), operation, first))
    EMU_REDUCTIONS((class Count), (Count count), count)
    EMU_CALL(ArgMin, (class In, class Out, class Count), (In in, Out out, Count count),
             emulated::put_best(in, out, static_cast<size_t>(count), std::less(), emulated::highest<emulated::ValueOf<In>>()))
    EMU_CALL(ArgMax, (class In, class Out, class Count), (In in, Out out, Count count),
             emulated::put_best(in, out, static_cast<size_t>(count), std::greater(), emulated::lowest<emulated::ValueOf<In>>()))
    template <class In, class Out, class Count, class Operation, class Transform, class T>
    static cudaError_t TransformReduce(void* storage, size_t& bytes, In in, Out out, Count count, Operation operation, Transform transform,
                                       T first, cudaStream_t stream = nullptr) {
        return Reduce(storage, bytes, TransformInputIterator<T, Transform, In>(in, transform), out, count, operation, first, stream);
    }
    EMU_CALL(ReduceByKey, (class Keys, class Unique, class Values, class Aggregates, class Runs, class Operation, class Count),
             (Keys keys, Unique unique, Values values, Aggregates aggregates, Runs runs, Operation operation, Count count),
             emulated::reduce_runs(keys, unique, values, aggregates, runs, operation, static_cast<size_t>(count)))
};

struct DeviceSegmentedReduce {
    EMU_CALL(Reduce, (class In, class Out, class Begins, class Ends, class Operation, class T),
             (In in, Out out, int64_t segments, Begins begins, Ends ends, Operation operation, T first),
             for (int64_t s = 0; s < segments; ++s)
                 out[s] = emulated::reduce_from(in, static_cast<size_t>(begins[s]), static_cast<size_t>(ends[s]), operation, first))
    EMU_REDUCTIONS((class Begins, class Ends), (int64_t segments, Begins begins, Ends ends), segments, begins, ends)
};
#undef EMU_REDUCTIONS
#undef EMU_REDUCTION

struct DeviceScan {
#define EMU_SCAN(name, head, parameters, T, operation, inclusive, first)                                                      \
    EMU_CALL(name, (class In, class Out, EMU_UNPACK head), (In in, Out out, EMU_UNPACK parameters),                           \
             emulated::scan<EMU_UNPACK T>(in, out, 0, static_cast<size_t>(count), operation, inclusive, first))
#define EMU_SUM(name, inclusive, first)                                                                                       \
    EMU_SCAN(name, (class Count), (Count count), (emulated::ValueOf<In>), cub::Sum(), inclusive, first)                       \
    EMU_CALL(name##ByKey, (class Keys, class In, class Out, class Count), (Keys keys, In in, Out out, Count count),           \
             emulated::sum_by_key(keys, in, out, inclusive, static_cast<size_t>(count)))
#define EMU_SCAN_FROM(name, inclusive)                                                                                        \
    EMU_SCAN(name, (class Operation, class First, class Count), (Operation operation, First first, Count count),              \
             (emulated::Accumulated<Operation, First, emulated::ValueOf<In>>), operation, inclusive, first)
    EMU_SUM(ExclusiveSum, false, emulated::ValueOf<In>{})
    EMU_SUM(InclusiveSum, true, std::nullopt)
    EMU_SCAN_FROM(ExclusiveScan, false)
    EMU_SCAN_FROM(InclusiveScanInit, true)
    EMU_SCAN(InclusiveScan, (class Operation, class Count), (Operation operation, Count count), (emulated::ValueOf<In>), operation, true,
             std::nullopt)
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

template <class Count>
concept IsCount = !std::is_same_v<Count, cudaStream_t>;

template <class Way>
struct ByChoice {
    EMU_CALL(If, (class In, class Out, class Counted, class Count, class Predicate),
             (In in, Out out, Counted counted, Count count, Predicate predicate),
             Way::run(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return predicate(in[i]); }))
    EMU_CALL(Flagged, (class In, class Flags, class Out, class Counted, IsCount Count),
             (In in, Flags flags, Out out, Counted counted, Count count),
             Way::run(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return static_cast<bool>(flags[i]); }))
};

}  // namespace emulated

struct DevicePartition : emulated::ByChoice<emulated::Partition> {};
struct DeviceSelect : emulated::ByChoice<emulated::Select> {
    EMU_CALL(Unique, (class In, class Out, class Counted, class Count), (In in, Out out, Counted counted, Count count),
             emulated::Select::run(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return i == 0 || !(in[i] == in[i - 1]); }))
};

struct DeviceRunLengthEncode {
    EMU_CALL(Encode, (class In, class Unique, class Lengths, class Runs, class Count),
             (In in, Unique unique, Lengths lengths, Runs runs, Count count),
             emulated::measure_runs(in, unique, lengths, runs, static_cast<size_t>(count)))
};

namespace emulated {

// bin_of(sample) may be none of the bins.
template <class In, class Counter, class BinOf>
void count_bins(In samples, Counter* counts, int bins, size_t count, BinOf bin_of) {
    std::fill_n(counts, bins, Counter{});
    for (size_t i = 0; i < count; ++i)
        if (int64_t bin = bin_of(samples[i]); bin >= 0 && bin < bins) ++counts[bin];
}

template <class Sample, class Level>
int64_t even_bin(Sample sample, Level lower, Level upper, int bins) {
    if (!(sample >= lower && sample < upper)) return -1;
    if constexpr (!std::is_integral_v<Level>) return static_cast<int64_t>((sample - lower) * (static_cast<Level>(bins) / (upper - lower)));
    else
        return static_cast<int64_t>((static_cast<uint64_t>(sample) - static_cast<uint64_t>(lower)) * static_cast<uint64_t>(bins) /
                                    (static_cast<uint64_t>(upper) - static_cast<uint64_t>(lower)));
}

}  // namespace emulated

struct DeviceHistogram {
    EMU_CALL(HistogramEven, (class In, class Counter, class Level, class Count),
             (In samples, Counter* counts, int levels, Level lower, Level upper, Count count),
             emulated::count_bins(samples, counts, levels - 1, static_cast<size_t>(count),
                                  [=](auto sample) { return emulated::even_bin(sample, lower, upper, levels - 1); }))
    EMU_CALL(HistogramRange, (class In, class Counter, class Level, class Count),
             (In samples, Counter* counts, int levels, const Level* bounds, Count count),
             emulated::count_bins(samples, counts, levels - 1, static_cast<size_t>(count), [=](auto sample) {
                 return std::upper_bound(bounds, bounds + levels, static_cast<Level>(sample)) - bounds - 1;
             }))
};

namespace emulated {

inline constexpr NullType* no_values = nullptr;

// The places that items move to may be those that they come from.
template <class Keys, class SortedKeys, class Values, class SortedValues>
void put_in_order(const std::vector<uint32_t>& order, Keys keys, SortedKeys sorted, Values values, SortedValues moved) {
    auto put = [&](auto from, auto to) {
        std::vector<ValueOf<decltype(from)>> items;
        for (uint32_t at : order) items.push_back(from[at]);
        std::copy(items.begin(), items.end(), to);
    };
    put(keys, sorted);
    if constexpr (!std::is_same_v<ValueOf<Values>, NullType>) put(values, moved);
}

template <class Key, class Value>
void radix_sort(const Key* keys, Key* sorted, const Value* values, Value* moved, size_t count, int begin, int end, bool descending) {
    put_in_order(radix_order(count, [&](size_t i) -> const Key& { return keys[i]; }, begin, end, descending), keys, sorted, values, moved);
}

template <class Keys, class SortedKeys, class Values, class SortedValues, class Less>
void merge_sort(Keys keys, SortedKeys sorted, Values values, SortedValues moved, size_t count, Less less) {
    put_in_order(sorted_order(count, [&](uint32_t a, uint32_t b) { return less(keys[a], keys[b]); }), keys, sorted, values, moved);
}

}  // namespace emulated

// Of a DoubleBuffer the result lies in the other one, which becomes the current one.
struct DeviceRadixSort {
#define EMU_RADIX(suffix, descending)                                                                                         \
    EMU_CALL(SortPairs##suffix, (class Key, class Value, class Count),                                                        \
             (const Key* keys, Key* sorted, const Value* values, Value* moved, Count count, int begin = 0, int end = sizeof(Key) * 8), \
             emulated::radix_sort(keys, sorted, values, moved, static_cast<size_t>(count), begin, end, descending))           \
    EMU_CALL(SortKeys##suffix, (class Key, class Count),                                                                      \
             (const Key* keys, Key* sorted, Count count, int begin = 0, int end = sizeof(Key) * 8),                           \
             emulated::radix_sort(keys, sorted, emulated::no_values, emulated::no_values, static_cast<size_t>(count), begin, end, \
                                  descending))                                                                                \
    template <class Key, class Value, class Count>                                                                            \
    static cudaError_t SortPairs##suffix(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>& values,  \
                                         Count count, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) { \
        cudaError_t done = SortPairs##suffix(storage, bytes, keys.Current(), keys.Alternate(), values.Current(), values.Alternate(), \
                                             count, begin, end, stream);                                                      \
        if (storage) keys.selector ^= 1, values.selector ^= 1;                                                                \
        return done;                                                                                                          \
    }                                                                                                                         \
    template <class Key, class Count>                                                                                         \
    static cudaError_t SortKeys##suffix(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, Count count, int begin = 0,    \
                                        int end = sizeof(Key) * 8, cudaStream_t stream = nullptr) {                           \
        DoubleBuffer<NullType> values;                                                                                        \
        return SortPairs##suffix(storage, bytes, keys, values, count, begin, end, stream);                                    \
    }
    EMU_RADIX(, false)
    EMU_RADIX(Descending, true)
#undef EMU_RADIX
};

struct DeviceMergeSort {
    EMU_CALL(SortKeys, (class Keys, class Count, class Less), (Keys keys, Count count, Less less),
             emulated::merge_sort(keys, keys, emulated::no_values, emulated::no_values, static_cast<size_t>(count), less))
    EMU_CALL(SortKeysCopy, (class Keys, class Sorted, class Count, class Less), (Keys keys, Sorted sorted, Count count, Less less),
             emulated::merge_sort(keys, sorted, emulated::no_values, emulated::no_values, static_cast<size_t>(count), less))
    EMU_CALL(SortPairs, (class Keys, class Values, class Count, class Less), (Keys keys, Values values, Count count, Less less),
             emulated::merge_sort(keys, keys, values, values, static_cast<size_t>(count), less))
    template <class... Arguments>
    static cudaError_t StableSortKeys(void* storage, size_t& bytes, Arguments... arguments) {
        return SortKeys(storage, bytes, arguments...);
    }
    template <class... Arguments>
    static cudaError_t StableSortPairs(void* storage, size_t& bytes, Arguments... arguments) {
        return SortPairs(storage, bytes, arguments...);
    }
};
#undef EMU_CALL
#undef EMU_UNPACK

}  // namespace cub
