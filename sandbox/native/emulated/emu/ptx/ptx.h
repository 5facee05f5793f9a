// What the translated asm statements of a file call.  Included where there are any.
#pragma once

#include "convert.h"
#include "matrix.h"
#include "memory.h"
#include "warp.h"
