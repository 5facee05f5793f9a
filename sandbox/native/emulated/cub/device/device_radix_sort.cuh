#include "sort.h"
