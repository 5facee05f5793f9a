// What of pybind11 is carried; the rest does not compile.
#pragma once

#include <grader/binding.h>
