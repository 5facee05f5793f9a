// cudaError_t and the error that a failed call leaves behind for cudaGetLastError.
#pragma once

#include "qualifiers.h"

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidPitchValue = 12,
    cudaErrorInvalidSymbol = 13,
    cudaErrorInvalidDevicePointer = 17,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInvalidFilterSetting = 26,
    cudaErrorLaunchMaxDepthExceeded = 65,
    cudaErrorLaunchPendingCountExceeded = 69,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchOutOfResources = 701,
    cudaErrorLaunchTimeout = 702,
    cudaErrorAssert = 710,
    cudaErrorLaunchFailure = 719,
    cudaErrorCooperativeLaunchTooLarge = 720,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorInvalidClusterSize = 912,
    cudaErrorUnknown = 999,
};
typedef enum cudaError cudaError_t;

namespace emu {

struct ErrorText {
    cudaError_t code;
    const char* name;
    const char* text;
};

inline constexpr ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidFilterSetting, "cudaErrorInvalidFilterSetting", "linear filtering not supported for non-float type"},
    {cudaErrorLaunchMaxDepthExceeded, "cudaErrorLaunchMaxDepthExceeded", "launch would exceed maximum depth of nested launches"},
    {cudaErrorLaunchPendingCountExceeded, "cudaErrorLaunchPendingCountExceeded", "launch failed because launch would exceed maximum number of pending launches"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "cluster misconfiguration"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

inline const ErrorText* find_error(cudaError_t code) {
    for (const ErrorText& entry : error_texts)
        if (entry.code == code) return &entry;
    return nullptr;
}

inline EMU_THREAD_LOCAL cudaError_t last_error = cudaSuccess;

int* error_of_thread();  // of the kernel's thread that asks; null on the host

// Remembers a failure for cudaGetLastError, as every runtime call does, and hands it on.
inline cudaError_t report(cudaError_t code) {
    if (code == cudaSuccess) return code;
    if (int* error = error_of_thread()) *error = code;
    else last_error = code;
    return code;
}

}  // namespace emu

inline const char* cudaGetErrorName(cudaError_t code) {
    const emu::ErrorText* entry = emu::find_error(code);
    return entry ? entry->name : "unrecognized error code";
}

inline const char* cudaGetErrorString(cudaError_t code) {
    const emu::ErrorText* entry = emu::find_error(code);
    return entry ? entry->text : "unrecognized error code";
}

#ifdef EMU_SANITIZE
namespace emu EMU_HIDDEN {
namespace sanitizer {
inline bool launch_unchecked = false;         // one has failed since the host last asked
inline void (*report_unchecked)() = nullptr;  // set by the first that fails
}  // namespace sanitizer
}  // namespace emu
#define EMU_LAUNCHES_CHECKED ::emu::sanitizer::launch_unchecked = false
#else
#define EMU_LAUNCHES_CHECKED static_cast<void>(0)
#endif

inline cudaError_t cudaPeekAtLastError() {
    EMU_LAUNCHES_CHECKED;
    const int* error = emu::error_of_thread();
    return error ? static_cast<cudaError_t>(*error) : emu::last_error;
}

inline cudaError_t cudaGetLastError() {
    EMU_LAUNCHES_CHECKED;
    cudaError_t code = cudaPeekAtLastError();
    if (int* error = emu::error_of_thread()) {
        *error = cudaSuccess;
        return code;
    }
    // A launch that died leaves the context unusable: the real runtime repeats that error for ever.
    if (code != cudaErrorLaunchFailure) emu::last_error = cudaSuccess;
    return code;
}
