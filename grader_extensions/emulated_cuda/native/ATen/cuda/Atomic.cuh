#include "../../emu/torch/atomic.h"
