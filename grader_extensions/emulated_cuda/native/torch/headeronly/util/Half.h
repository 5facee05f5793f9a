// torch's own, with the conversions that it has under nvcc: from __half and to it.
#pragma once
#include <cuda_fp16.h>
#include <torch/headeronly/util/floating_point_utils.h>
#define __CUDACC__ 1
#include_next <torch/headeronly/util/Half.h>
#undef __CUDACC__
#define EMU_TORCH Half
#define EMU_T __half
#include "emu/torch/mixed_operators.h"
