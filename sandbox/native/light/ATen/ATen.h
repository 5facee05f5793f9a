#include <grader/torch.h>
