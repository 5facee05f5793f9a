// torch's gpuAtomicAdd over the emulated device's atomics.
#pragma once

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "context.h"

inline c10::Half atomicAdd(c10::Half* address, c10::Half value) { return atomicAdd(reinterpret_cast<__half*>(address), value); }
inline c10::BFloat16 atomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
    return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
inline int64_t atomicAdd(int64_t* address, int64_t value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }

template <typename T>
T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
template <typename T>
void gpuAtomicAddNoReturn(T* address, T value) { atomicAdd(address, value); }
template <typename T>
T gpuAtomicMax(T* address, T value) { return atomicMax(address, value); }
template <typename T>
T gpuAtomicMin(T* address, T value) { return atomicMin(address, value); }
