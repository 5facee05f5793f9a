// Part of CUB.
#pragma once
#include "exchange.h"
