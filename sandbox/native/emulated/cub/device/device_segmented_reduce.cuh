// Part of CUB.
#pragma once
#include "reduce.h"
