// ldmatrix, stmatrix and movmatrix (PTX ISA 8.7, 9.7.14.5.15 to 9.7.14.5.17): matrices of 8 x 8 elements of 16 bits.
#pragma once

#include "../fault.h"
#include "../warp_registers.h"
#include "memory.h"

namespace emu EMU_HIDDEN {
namespace ptx {

// Element (row, column) of a matrix whose rows are four registers each.
inline uint32_t element(const uint32_t* row, unsigned column) { return row[column / 2] >> 16 * (column & 1) & 0xffff; }

inline char* matrix_row(char* address) {
    if (reinterpret_cast<uintptr_t>(address) % 16) trap("ldmatrix or stmatrix of a row that is not aligned to 16 bytes");
    return address;
}

// Row i of matrix m lies where lane 8 m + i says.  A lane gets the elements (g, 2t) and (g, 2t + 1), transposed (2t, g) and (2t + 1, g), where g
// is its number divided by 4 and t the rest.
template <unsigned count, bool transposed>
inline void emu_ldmatrix(uint32_t (&to)[count], char* address) {
    unsigned lane = emu::lane(), g = lane / 4, t = lane % 4;
    uint32_t row[4] = {};
    if (lane < 8 * count) memcpy(row, matrix_row(address), sizeof row);
    auto rows = share_registers(row, 4, "ldmatrix");
    for (unsigned m = 0; m < count; ++m) {
        if (transposed) to[m] = element(rows[8 * m + 2 * t], g) | element(rows[8 * m + 2 * t + 1], g) << 16;
        else to[m] = rows[8 * m + g][t];
    }
}

// The reverse.  All rows are written before any lane goes on.
template <unsigned count, bool transposed>
inline void emu_stmatrix(char* address, const uint32_t (&from)[count]) {
    unsigned lane = emu::lane(), m = lane / 8, i = lane % 8;
    auto registers = share_registers(from, count, "stmatrix");
    if (lane < 8 * count) {
        uint32_t row[4];
        for (unsigned pair = 0; pair < 4; ++pair) {
            if (!transposed) {
                row[pair] = registers[i * 4 + pair][m];
            } else {  // element (i, c) is half i & 1 of lane 4 c + i / 2
                uint32_t low = registers[4 * (2 * pair) + i / 2][m], high = registers[4 * (2 * pair + 1) + i / 2][m];
                row[pair] = (low >> 16 * (i & 1) & 0xffff) | (high >> 16 * (i & 1) & 0xffff) << 16;
            }
        }
        memcpy(matrix_row(address), row, sizeof row);
    }
    worker->collect(Collective::Sync, ~0u, 0);
}

inline uint32_t emu_movmatrix(uint32_t value) {
    unsigned lane = emu::lane(), g = lane / 4, t = lane % 4;
    auto registers = share_registers(&value, 1, "movmatrix");
    auto at = [&](unsigned row, unsigned column) { return registers[4 * row + column / 2][0] >> 16 * (column & 1) & 0xffff; };
    return at(2 * t, g) | at(2 * t + 1, g) << 16;
}

}  // namespace ptx
}  // namespace emu
