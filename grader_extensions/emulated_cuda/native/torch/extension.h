// torch's own header, and what nvcc's build of it would have defined too.
#pragma once
#include_next <torch/extension.h>
#include "../emu/torch/context.h"
