// The element types of the tensor instructions, as tags, and how a register holds them.
#pragma once

#include <stdint.h>

#include "../qualifiers.h"

namespace emu EMU_HIDDEN {
namespace ptx {

struct f16 { static constexpr unsigned bits = 16; };
struct bf16 { static constexpr unsigned bits = 16; };
struct tf32 { static constexpr unsigned bits = 32; };
struct f32 { static constexpr unsigned bits = 32; };
struct f64 { static constexpr unsigned bits = 64; };
struct s32 { static constexpr unsigned bits = 32; };
struct s8 { static constexpr unsigned bits = 8; };
struct u8 { static constexpr unsigned bits = 8; };
struct s4 { static constexpr unsigned bits = 4; };
struct u4 { static constexpr unsigned bits = 4; };
struct b1_xor { static constexpr unsigned bits = 1; };
struct b1_and { static constexpr unsigned bits = 1; };
struct e4m3 { static constexpr unsigned bits = 8; };
struct e5m2 { static constexpr unsigned bits = 8; };

}  // namespace ptx
}  // namespace emu
