// Stands for torch's header of this name.
#pragma once
#include "../../emu/torch/context.h"

#define C10_WARP_SIZE 32
template <typename T>
T WARP_SHFL(T value, int lane, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_sync(mask, value, lane, width); }
template <typename T>
T WARP_SHFL_XOR(T value, int lanes, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_xor_sync(mask, value, lanes, width); }
template <typename T>
T WARP_SHFL_DOWN(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_down_sync(mask, value, delta, width); }
template <typename T>
T WARP_SHFL_UP(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffffu) { return __shfl_up_sync(mask, value, delta, width); }
inline unsigned WARP_BALLOT(int predicate, unsigned mask = 0xffffffffu) { return __ballot_sync(mask, predicate); }
