// cub::BlockReduce and all the rest of CUB that the emulated device has.
#pragma once
#include "block.h"
#include "device.h"
