// The CUDA runtime on the CPU: what nvcc includes before a .cu file's first line.
#pragma once

// The guards of the toolkit's own headers, by which others tell what was included.
#define __CUDA_RUNTIME_H__
#define __DRIVER_TYPES_H__

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/qualifiers.h"
#include "emu/error.h"
#include "emu/block.h"
#include "emu/block_loops.h"
#include "emu/intrinsics.h"
#include "emu/atomics.h"
#include "emu/math.h"
#include "emu/simd.h"
#include "emu/memory.h"
#include "emu/device.h"
#include "emu/launch.h"
#include "emu/texture.h"
#ifndef EMU_PRECOMPILED
#include "emu/once.h"
#endif
