// fp16: __half, __half2 and their intrinsics.
#pragma once

#include <cuda_runtime.h>
#include "emu/short_float_bits.h"

#define EMU_T __half
#define EMU_T2 __half2
#define EMU_RAW __half_raw
#define EMU_RAW2 __half2_raw
#define EMU_FORMAT HalfFormat
#define EMU_INFINITY 0x7c00u
#define EMU_OF(before, after) before##half##after
#define EMU_OF2(before, middle, after) before##half##middle##half##after
#include "emu/short_float.h"

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

#define CUDART_INF_FP16 __ushort_as_half(0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fffu)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bffu)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000u)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00u)
