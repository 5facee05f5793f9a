// Part of CUB.
#pragma once
#include "warp.h"
