#include "../../emu/torch/stream.h"
