// torch's CUDA context over the emulated device: streams, guards, events, properties and checks.  There is one device and everything on it
// happens in order.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime.h>
#include <optional>

namespace c10::cuda {

class CUDAStream {
public:
    CUDAStream() = default;
    explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
    cudaStream_t stream() const { return stream_; }
    operator cudaStream_t() const { return stream_; }
    DeviceIndex device_index() const { return 0; }
    Device device() const { return Device(kCPU); }
    DeviceType device_type() const { return kCPU; }
    StreamId id() const { return 0; }
    int priority() const { return 0; }
    bool query() const { return true; }
    void synchronize() const { cudaStreamSynchronize(stream_); }
    Stream unwrap() const { return Stream(Stream::DEFAULT, Device(kCPU)); }
    operator Stream() const { return unwrap(); }
    bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
    bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);  // torch's pool is never freed either
    return CUDAStream(stream);
}
inline CUDAStream getStreamFromPool(int, DeviceIndex device = -1) { return getStreamFromPool(false, device); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return CUDAStream(stream); }
inline void setCurrentCUDAStream(CUDAStream) {}

inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex, bool = false) {}
inline cudaError_t SetDevice(DeviceIndex, bool = false) { return cudaSuccess; }
inline cudaError_t MaybeSetDevice(DeviceIndex) { return cudaSuccess; }
inline DeviceIndex ExchangeDevice(DeviceIndex) { return 0; }
inline DeviceIndex MaybeExchangeDevice(DeviceIndex) { return 0; }
inline void device_synchronize() { cudaDeviceSynchronize(); }
inline void stream_synchronize(cudaStream_t stream) { cudaStreamSynchronize(stream); }
inline int warp_size() { return 32; }

struct OptionalCUDAGuard {
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(std::optional<Device>) {}
    explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
    void set_device(Device) {}
    void reset_device(Device) {}
    void set_index(DeviceIndex) {}
    void reset() {}
};
struct CUDAGuard : OptionalCUDAGuard {
    explicit CUDAGuard(DeviceIndex) {}
    explicit CUDAGuard(Device) {}
    Device original_device() const { return Device(kCPU); }
    Device current_device() const { return Device(kCPU); }
};
struct CUDAStreamGuard {
    explicit CUDAStreamGuard(CUDAStream) {}
    explicit CUDAStreamGuard(Stream) {}
    CUDAStream original_stream() const { return CUDAStream(); }
    CUDAStream current_stream() const { return CUDAStream(); }
};
using OptionalCUDAStreamGuard = CUDAStreamGuard;

inline void check(cudaError_t code) {
    if (code == cudaSuccess) return;
    cudaGetLastError();
    TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(code));
}

}  // namespace c10::cuda

#define C10_CUDA_CHECK(expression) ::c10::cuda::check(expression)
#define C10_CUDA_CHECK_WARN(expression) (void)(expression)
#define C10_CUDA_ERROR_HANDLED(expression) (expression)
#define C10_CUDA_IGNORE_ERROR(expression) (void)(expression)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define AT_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()

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
