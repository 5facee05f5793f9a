// bf16: __nv_bfloat16, __nv_bfloat162 and their intrinsics.
#pragma once

#include <cuda_runtime.h>
#include "emu/short_float_bits.h"

#define EMU_T __nv_bfloat16
#define EMU_T2 __nv_bfloat162
#define EMU_RAW __nv_bfloat16_raw
#define EMU_RAW2 __nv_bfloat162_raw
#define EMU_FORMAT BfloatFormat
#define EMU_INFINITY 0x7f80u
#define EMU_OF(before, after) before##bfloat16##after
#define EMU_OF2(before, middle, after) before##bfloat16##middle##bfloat16##after
#include "emu/short_float.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fffu)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000u)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80u)
