// Part of CUB.
#pragma once
#include "select.h"
