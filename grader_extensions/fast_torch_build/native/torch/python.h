// Stands for torch's header of this name.
#pragma once
#include "extension.h"
