// Stands for torch's header of this name.
#pragma once
#include <grader/torch.h>
#include <grader/binding.h>
#include <grader/wrapped.h>
