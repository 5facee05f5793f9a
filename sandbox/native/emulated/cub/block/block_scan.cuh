// Part of CUB.
#pragma once
#include "scan.h"
