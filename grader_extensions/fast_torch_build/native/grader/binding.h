// The part of pybind11 that torch extensions use, for a fraction of its compile time.  What is not carried does not compile; what is, behaves alike.
#pragma once

#include <ATen/core/Tensor.h>

#ifdef __CUDA_ARCH__
#include "binding_device.h"
#else
#include "binding_containers.h"
#include "binding_module.h"
#endif
