#include <grader/binding.h>
