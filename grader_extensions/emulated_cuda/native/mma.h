// nvcuda::wmma: matrix products of a warp.
#pragma once

#include <cuda_runtime.h>
#include "emu/tensor/wmma.h"
