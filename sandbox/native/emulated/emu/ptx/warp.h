// What a warp or a block does together in inline PTX (PTX ISA 8.7, 9.7.9.6, 9.7.13), and the special registers (chapter 10).
#pragma once

#include "../device.h"
#include "../named_barriers.h"
#include "../warp.h"
#include "values.h"

namespace emu EMU_HIDDEN {
namespace ptx {

// up 0, down 1, bfly 2, idx 3.  `bounds` holds the clamp in its bits 0 to 4 and the segment's mask in 8 to 12.
template <unsigned mode>
inline uint32_t emu_shuffle(uint32_t value, uint32_t by, uint32_t bounds, uint32_t mask, bool& in_range) {
    int lane = static_cast<int>(emu::lane()), b = static_cast<int>(by & 31), clamp = static_cast<int>(bounds & 31);
    int segment = static_cast<int>(bounds >> 8 & 31), first = lane & segment, last = first | (clamp & ~segment);
    int source = mode == 0 ? lane - b : mode == 1 ? lane + b : mode == 2 ? lane ^ b : first | (b & ~segment);
    in_range = mode == 0 ? source >= last : source <= last;
    return shuffle(mask, value, static_cast<unsigned>(in_range ? source : lane));
}

// The device elects the lowest lane of the mask.
inline uint32_t emu_elect(uint32_t mask) {
    worker->collect(Collective::Sync, mask, 0);
    uint32_t present = mask & worker->warp().live;
    return static_cast<uint32_t>(__builtin_ctz(present ? present : 1u << emu::lane()));
}

inline Worker::BarrierVotes emu_barrier(uint32_t number, uint32_t threads, bool predicate, bool arrives_only) {
    return worker->named_barrier(number, threads, predicate, arrives_only);
}
[[noreturn]] inline void emu_exit() { worker->exit_thread(); }

#define EMU_PTX_AXES(name, variable)                          \
    inline uint32_t emu_##name##_x() { return ::variable.x; } \
    inline uint32_t emu_##name##_y() { return ::variable.y; } \
    inline uint32_t emu_##name##_z() { return ::variable.z; }
EMU_PTX_AXES(tid, threadIdx)
EMU_PTX_AXES(ntid, blockDim)
EMU_PTX_AXES(ctaid, blockIdx)
EMU_PTX_AXES(nctaid, gridDim)
#undef EMU_PTX_AXES

inline uint32_t emu_laneid() { return emu::lane(); }
inline uint32_t emu_warpid() { return worker->current().linear / 32; }
inline uint32_t emu_nwarpid() { return max_threads / 32; }
inline uint32_t emu_smid() { return 0; }
inline uint32_t emu_nsmid() { return static_cast<uint32_t>(device_properties().multiProcessorCount); }
inline uint32_t emu_gridid() { return 0; }
inline uint32_t emu_warp_lanes() { return 32; }
inline uint32_t emu_dynamic_shared_bytes() { return static_cast<uint32_t>(worker->launch()->dynamic_bytes); }
inline uint32_t emu_lanemask_eq() { return 1u << emu::lane(); }
inline uint32_t emu_lanemask_lt() { return emu_lanemask_eq() - 1; }
inline uint32_t emu_lanemask_le() { return emu_lanemask_lt() | emu_lanemask_eq(); }
inline uint32_t emu_lanemask_gt() { return ~emu_lanemask_le(); }
inline uint32_t emu_lanemask_ge() { return ~emu_lanemask_lt(); }
inline uint64_t emu_clock_cycles() { return static_cast<uint64_t>(clock64()); }
inline uint32_t emu_clock_cycles_low() { return static_cast<uint32_t>(clock64()); }
inline uint32_t emu_clock_cycles_high() { return static_cast<uint32_t>(emu_clock_cycles() >> 32); }
inline uint64_t emu_global_timer() { return __globaltimer(); }

}  // namespace ptx
}  // namespace emu
