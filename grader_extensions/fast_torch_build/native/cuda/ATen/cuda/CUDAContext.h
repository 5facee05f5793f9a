// Torch's header of this name, without its logging.
#pragma once
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAStream.h>
