// torch's own, with the conversions that it has under nvcc: from __nv_bfloat16 and to it.
#pragma once
#include <cuda_bf16.h>
#include <torch/headeronly/util/floating_point_utils.h>
#define __CUDACC__ 1
#include_next <torch/headeronly/util/BFloat16.h>
#undef __CUDACC__
#define EMU_TORCH BFloat16
#define EMU_T __nv_bfloat16
#include "emu/torch/mixed_operators.h"
