// cub::BlockReduce and all the rest of CUB that the emulated device has.
#pragma once
// What the toolkit's own brings, and sources take for granted.
#include <cassert>
#include <cfloat>
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "block.h"
#include "device.h"
