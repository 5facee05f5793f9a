#include "../../emu/torch/context.h"
