#include "../types.h"
