// The object that emulated kernels are linked with: emulated/emu/once.h.
#define EMU_DEVICE_OBJECT
#include <cuda_runtime.h>
