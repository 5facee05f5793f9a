// Part of CUB.
#pragma once
#include "iterators.h"
