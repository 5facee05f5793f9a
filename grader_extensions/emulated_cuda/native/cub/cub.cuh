// cub::BlockReduce and all the rest of CUB that the emulated device has.
#pragma once
#include "block/exchange.h"
#include "block/parts.h"
#include "block/reduce.h"
#include "block/scan.h"
#include "block/sort.h"
#include "device/reduce.h"
#include "device/scan.h"
#include "device/select.h"
#include "device/sort.h"
#include "iterator/iterators.h"
#include "warp/warp.h"
