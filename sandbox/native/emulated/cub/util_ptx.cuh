#include "warp/warp.h"
