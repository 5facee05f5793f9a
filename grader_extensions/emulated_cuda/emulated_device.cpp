// The object that emulated kernels are linked with: native/emu/once.h.
#define EMU_DEVICE_OBJECT
#include <cuda_runtime.h>
