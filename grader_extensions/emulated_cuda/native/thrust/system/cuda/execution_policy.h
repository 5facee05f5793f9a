// thrust::cuda::par: Thrust works on the host, at once, so a stream has nothing to order.
#pragma once

#include <cuda_runtime.h>
#include <thrust/execution_policy.h>
#include <thrust/system/cpp/execution_policy.h>

namespace thrust::cuda {

struct par_t : thrust::system::cpp::execution_policy<par_t> {
    const par_t& on(cudaStream_t) const { return *this; }
    template <class Allocator>
    const par_t& operator()(Allocator&&) const { return *this; }
};
inline const par_t par, par_nosync;

}  // namespace thrust::cuda
