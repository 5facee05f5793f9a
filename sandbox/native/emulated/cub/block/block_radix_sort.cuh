// Part of CUB.
#pragma once
#include "sort.h"
