// cub::DeviceSelect, DevicePartition, DeviceRunLengthEncode, DeviceHistogram, DeviceFor.
#pragma once

#include "common.h"

namespace cub {

namespace emulated {

template <class In, class Out, class Counted, class Chosen>
void select(In in, Out out, Counted counted, size_t count, Chosen chosen) {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i)
        if (chosen(i)) out[found++] = in[i];
    *counted = static_cast<ValueOf<Counted>>(found);
}

// What is not chosen stands at the end, in reverse order.
template <class In, class Out, class Counted, class Chosen>
void partition(In in, Out out, Counted counted, size_t count, Chosen chosen) {
    size_t front = 0, back = count;
    for (size_t i = 0; i < count; ++i) out[chosen(i) ? front++ : --back] = in[i];
    *counted = static_cast<ValueOf<Counted>>(front);
}

}  // namespace emulated

struct DeviceSelect {
    template <class In, class Out, class Counted, class Count, class Predicate>
    static cudaError_t If(void* storage, size_t& bytes, In in, Out out, Counted counted, Count count, Predicate predicate, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            emulated::select(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return predicate(in[i]); });
        });
    }
    template <class In, class Flags, class Out, class Counted, class Count>
        requires(!std::is_same_v<Count, cudaStream_t>)
    static cudaError_t Flagged(void* storage, size_t& bytes, In in, Flags flags, Out out, Counted counted, Count count, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            emulated::select(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return static_cast<bool>(flags[i]); });
        });
    }
    template <class In, class Out, class Counted, class Count>
    static cudaError_t Unique(void* storage, size_t& bytes, In in, Out out, Counted counted, Count count, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            emulated::select(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return i == 0 || !(in[i] == in[i - 1]); });
        });
    }
};

struct DevicePartition {
    template <class In, class Out, class Counted, class Count, class Predicate>
    static cudaError_t If(void* storage, size_t& bytes, In in, Out out, Counted counted, Count count, Predicate predicate, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            emulated::partition(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return predicate(in[i]); });
        });
    }
    template <class In, class Flags, class Out, class Counted, class Count>
    static cudaError_t Flagged(void* storage, size_t& bytes, In in, Flags flags, Out out, Counted counted, Count count, cudaStream_t stream = nullptr) {
        return emulated::in_two_calls(storage, bytes, stream, [=]() mutable {
            emulated::partition(in, out, counted, static_cast<size_t>(count), [&](size_t i) { return static_cast<bool>(flags[i]); });
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

}  // namespace cub
