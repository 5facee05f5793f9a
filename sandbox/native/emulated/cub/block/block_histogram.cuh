// Part of CUB.
#pragma once
#include "parts.h"
