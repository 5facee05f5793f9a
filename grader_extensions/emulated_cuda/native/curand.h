// Types of cuRAND's host functions.  What calls the library is refused before it is compiled.
#pragma once

#include <cuda_runtime.h>

typedef struct curandGenerator_st* curandGenerator_t;
enum curandStatus { CURAND_STATUS_SUCCESS = 0, CURAND_STATUS_VERSION_MISMATCH = 100, CURAND_STATUS_NOT_INITIALIZED = 101, CURAND_STATUS_ALLOCATION_FAILED = 102 };
typedef enum curandStatus curandStatus_t;
enum curandRngType { CURAND_RNG_PSEUDO_DEFAULT = 100, CURAND_RNG_PSEUDO_XORWOW = 101, CURAND_RNG_PSEUDO_MRG32K3A = 121, CURAND_RNG_PSEUDO_MTGP32 = 141, CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161 };
typedef enum curandRngType curandRngType_t;
