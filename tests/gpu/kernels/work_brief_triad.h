// The honest work of brief_triad: that of triad, on less.
#include "work_triad.h"
