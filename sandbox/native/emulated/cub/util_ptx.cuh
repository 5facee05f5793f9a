// Part of CUB.
#pragma once
#include "warp/warp.h"
