// cub::DeviceScan.
#pragma once

#include "common.h"

namespace cub {

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
    template <class In, class Out, class Count>
    static cudaError_t ExclusiveSum(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using T = emulated::ValueOf<In>;
        return emulated::scan<T>(storage, bytes, in, out, cub::Sum(), false, true, T{}, count, stream);
    }
    template <class In, class Out, class Count>
    static cudaError_t InclusiveSum(void* storage, size_t& bytes, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using T = emulated::ValueOf<In>;
        return emulated::scan<T>(storage, bytes, in, out, cub::Sum(), true, false, T{}, count, stream);
    }
    template <class In, class Out, class Operation, class First, class Count>
    static cudaError_t ExclusiveScan(void* storage, size_t& bytes, In in, Out out, Operation operation, First first, Count count,
                                     cudaStream_t stream = nullptr) {
        using T = emulated::Accumulated<Operation, First, emulated::ValueOf<In>>;
        return emulated::scan<T>(storage, bytes, in, out, operation, false, true, static_cast<T>(first), count, stream);
    }
    template <class In, class Out, class Operation, class Count>
    static cudaError_t InclusiveScan(void* storage, size_t& bytes, In in, Out out, Operation operation, Count count, cudaStream_t stream = nullptr) {
        using T = emulated::ValueOf<In>;
        return emulated::scan<T>(storage, bytes, in, out, operation, true, false, T{}, count, stream);
    }
    template <class In, class Out, class Operation, class First, class Count>
    static cudaError_t InclusiveScanInit(void* storage, size_t& bytes, In in, Out out, Operation operation, First first, Count count,
                                         cudaStream_t stream = nullptr) {
        using T = emulated::Accumulated<Operation, First, emulated::ValueOf<In>>;
        return emulated::scan<T>(storage, bytes, in, out, operation, true, true, static_cast<T>(first), count, stream);
    }
    template <class Keys, class In, class Out, class Count>
    static cudaError_t ExclusiveSumByKey(void* storage, size_t& bytes, Keys keys, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using T = emulated::ValueOf<In>;
        return emulated::scan_by_key<T>(storage, bytes, keys, in, out, cub::Sum(), false, true, T{}, count, stream);
    }
    template <class Keys, class In, class Out, class Count>
    static cudaError_t InclusiveSumByKey(void* storage, size_t& bytes, Keys keys, In in, Out out, Count count, cudaStream_t stream = nullptr) {
        using T = emulated::ValueOf<In>;
        return emulated::scan_by_key<T>(storage, bytes, keys, in, out, cub::Sum(), true, false, T{}, count, stream);
    }
};

}  // namespace cub
