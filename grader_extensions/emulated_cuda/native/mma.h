#include "emu/tensor/wmma.h"
