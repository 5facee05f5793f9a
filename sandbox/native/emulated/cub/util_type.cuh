// Part of CUB.
#pragma once
#include "types.h"
