// Types of cuFFT.  What calls the library is refused before it is compiled.
#pragma once

#include <cuda_runtime.h>

typedef int cufftHandle;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef float2 cufftComplex;
typedef double2 cufftDoubleComplex;
enum cufftResult_t { CUFFT_SUCCESS, CUFFT_INVALID_PLAN, CUFFT_ALLOC_FAILED, CUFFT_INVALID_TYPE, CUFFT_INVALID_VALUE };
typedef cufftResult_t cufftResult;
enum cufftType_t { CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29, CUFFT_D2Z = 0x6a, CUFFT_Z2D = 0x6c, CUFFT_Z2Z = 0x69 };
typedef cufftType_t cufftType;
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1
