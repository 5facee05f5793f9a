// cub::BlockReduce and all the rest of CUB that the emulated device has.
#pragma once
#include "device/device.h"
#include "iterator/iterators.h"
#include "warp/warp.h"
