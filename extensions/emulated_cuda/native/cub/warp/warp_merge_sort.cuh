#include "warp.h"
