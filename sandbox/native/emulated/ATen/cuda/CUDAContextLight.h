// Stands for torch's header of this name.
#pragma once
#include "../../emu/torch/context.h"
