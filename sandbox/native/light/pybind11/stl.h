// The casters of vectors, arrays, optionals, pairs and tuples come with the others.
#pragma once

#include <grader/binding.h>
