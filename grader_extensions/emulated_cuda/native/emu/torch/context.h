// The at::cuda names over the emulated device: what extensions ask of the context.
#pragma once

#include "stream.h"

// nvcc's torch headers define these for packed accessors; g++'s do not.
namespace at {
#if !defined(__CUDACC__) && !defined(__HIPCC__)
template <typename T>
struct RestrictPtrTraits {
    typedef T* __restrict__ PtrType;
};
#endif
}  // namespace at

namespace at::cuda {

using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::current_device;
using c10::cuda::device_synchronize;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::set_device;
using c10::cuda::setCurrentCUDAStream;
using c10::cuda::stream_synchronize;
using c10::cuda::warp_size;

inline bool is_available() { return true; }
inline int64_t getNumGPUs() { return 1; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex = 0) {
    static cudaDeviceProp properties = emu::device_properties();
    return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(); }

template <typename integer>
constexpr integer ceil_div(integer n, integer m) { return (n + m - 1) / m; }
template <typename integer>
constexpr integer ATenCeilDiv(integer n, integer m) { return (n + m - 1) / m; }

class CUDAEvent {
public:
    explicit CUDAEvent(unsigned = cudaEventDisableTiming) { cudaEventCreate(&event_); }
    CUDAEvent(const CUDAEvent&) = delete;
    CUDAEvent& operator=(const CUDAEvent&) = delete;
    ~CUDAEvent() { cudaEventDestroy(event_); }
    operator cudaEvent_t() const { return event_; }
    cudaEvent_t event() const { return event_; }
    void record() { cudaEventRecord(event_); }
    void record(const CUDAStream& stream) { cudaEventRecord(event_, stream); }
    void block(const CUDAStream&) {}
    bool query() const { return true; }
    void synchronize() const {}
    float elapsed_time(const CUDAEvent& other) const {
        float ms = 0;
        C10_CUDA_CHECK(cudaEventElapsedTime(&ms, event_, other.event_));
        return ms;
    }

private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace at::cuda

namespace at {
using at::cuda::ATenCeilDiv;
}
