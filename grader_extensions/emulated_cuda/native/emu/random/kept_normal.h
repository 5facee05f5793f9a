// The second of two normal numbers, until it is asked for.
#pragma once

#include <cuda_runtime.h>

namespace emu EMU_HIDDEN {

enum class NormalKind : unsigned char { None, Normal, LogNormal };

template <class T>
struct KeptNormal {
    NormalKind kind = NormalKind::None;
    T value = 0;

    // The kept one if it is of this kind; else one of the two that `draw` makes. As cuRAND, it forgets one of the other kind.
    template <class Draw>
    T next(NormalKind wanted, Draw draw) {
        bool kept = kind == wanted;
        kind = kept ? NormalKind::None : wanted;
        if (kept) return value;
        auto two = draw();
        value = two.y;
        return two.x;
    }
};

}  // namespace emu
