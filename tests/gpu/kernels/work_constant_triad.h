// The honest work of constant_triad is triad's.
#include "work_triad.h"
