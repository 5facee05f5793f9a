// Integer functions of the halfwords or bytes of a word: SIMD video intrinsics, and those for dynamic programming (DPX).
#pragma once

#include <limits>

#include "math.h"

// Each lane of the result is an expression of that lane of the words, cut to the lane.
#define EMU_SATURATED(value) min(max(value, long{std::numeric_limits<Lane>::min()}), long{std::numeric_limits<Lane>::max()})
#define EMU_LANE(word) long{static_cast<Lane>(static_cast<unsigned>(word) >> at)}
#define EMU_BY_LANE(name, parameters, Word, L, x, y, z, ...)                                               \
    inline Word name parameters {                                                                          \
        using Lane = L;                                                                                    \
        unsigned result = 0;                                                                               \
        for (unsigned at = 0; at < 32; at += 8 * sizeof(Lane)) {                                           \
            [[maybe_unused]] long a = EMU_LANE(x), b = EMU_LANE(y), c = EMU_LANE(z);                       \
            result |= (static_cast<unsigned>(__VA_ARGS__) & ~0u >> (32 - 8 * sizeof(Lane))) << at;         \
        }                                                                                                  \
        return static_cast<Word>(result);                                                                  \
    }
#define EMU_OF_1(name, Word, L, ...) EMU_BY_LANE(name, (Word x), Word, L, x, x, x, __VA_ARGS__)
#define EMU_OF_2(name, Word, L, ...) EMU_BY_LANE(name, (Word x, Word y), Word, L, x, y, y, __VA_ARGS__)
#define EMU_OF_3(name, Word, L, ...) EMU_BY_LANE(name, (Word x, Word y, Word z), Word, L, x, y, z, __VA_ARGS__)

#define EMU_VIDEO(count, name, sign, ...)                             \
    EMU_OF_##count(name##2, unsigned, sign##16_t, __VA_ARGS__) EMU_OF_##count(name##4, unsigned, sign##8_t, __VA_ARGS__)
EMU_VIDEO(1, __vabs, int, a < 0 ? -a : a)
EMU_VIDEO(1, __vabsss, int, EMU_SATURATED(a < 0 ? -a : a))
EMU_VIDEO(1, __vneg, int, -a)
EMU_VIDEO(1, __vnegss, int, EMU_SATURATED(-a))
EMU_VIDEO(2, __vadd, uint, a + b)
EMU_VIDEO(2, __vaddss, int, EMU_SATURATED(a + b))
EMU_VIDEO(2, __vaddus, uint, EMU_SATURATED(a + b))
EMU_VIDEO(2, __vsub, uint, a - b)
EMU_VIDEO(2, __vsubss, int, EMU_SATURATED(a - b))
EMU_VIDEO(2, __vsubus, uint, EMU_SATURATED(a - b))
// Signed halves are rounded away from zero, unsigned ones up.
EMU_VIDEO(2, __vavgs, int, (a + b + (a + b >= 0)) >> 1)
EMU_VIDEO(2, __vavgu, uint, (a + b + 1) >> 1)
EMU_VIDEO(2, __vhaddu, uint, (a + b) >> 1)
EMU_VIDEO(2, __vmaxs, int, max(a, b)) EMU_VIDEO(2, __vmaxu, uint, max(a, b))
EMU_VIDEO(2, __vmins, int, min(a, b)) EMU_VIDEO(2, __vminu, uint, min(a, b))
EMU_VIDEO(2, __vabsdiffs, int, max(a, b) - min(a, b))
EMU_VIDEO(2, __vabsdiffu, uint, max(a, b) - min(a, b))
// Each lane's answer is all ones, or 1: nvcc's code for __vset*, where the manual has one bit for the word.
#define EMU_COMPARE(name, sign, operation)                \
    EMU_VIDEO(2, __vcmp##name, sign, -long{a operation b}) EMU_VIDEO(2, __vset##name, sign, long{a operation b})
EMU_COMPARE(eq, uint, ==) EMU_COMPARE(ne, uint, !=)
EMU_COMPARE(ges, int, >=) EMU_COMPARE(geu, uint, >=)
EMU_COMPARE(gts, int, >) EMU_COMPARE(gtu, uint, >)
EMU_COMPARE(les, int, <=) EMU_COMPARE(leu, uint, <=)
EMU_COMPARE(lts, int, <) EMU_COMPARE(ltu, uint, <)
#undef EMU_COMPARE
#undef EMU_VIDEO
inline unsigned __vsads2(unsigned a, unsigned b) { return (__vabsdiffs2(a, b) & 0xffff) + (__vabsdiffs2(a, b) >> 16); }
inline unsigned __vsadu2(unsigned a, unsigned b) { return (__vabsdiffu2(a, b) & 0xffff) + (__vabsdiffu2(a, b) >> 16); }
inline unsigned __vsads4(unsigned a, unsigned b) { return __dp4a(__vabsdiffs4(a, b), 0x01010101u, 0u); }
inline unsigned __vsadu4(unsigned a, unsigned b) { return __dp4a(__vabsdiffu4(a, b), 0x01010101u, 0u); }

#define EMU_DPX(extreme, kind, Word, L)                                                                 \
    EMU_OF_3(__vi##extreme##3_##kind, Word, L, extreme(extreme(a, b), c))                               \
    EMU_OF_3(__viadd##extreme##_##kind, Word, L, extreme(long{static_cast<Lane>(a + b)}, c))
#define EMU_DPX_SIGNED(extreme, kind, Word, L)                                                          \
    EMU_DPX(extreme, kind, Word, L)                                                                     \
    EMU_OF_2(__vi##extreme##_##kind##_relu, Word, L, max(extreme(a, b), 0l))                            \
    EMU_OF_3(__vi##extreme##3_##kind##_relu, Word, L, max(extreme(extreme(a, b), c), 0l))               \
    EMU_OF_3(__viadd##extreme##_##kind##_relu, Word, L, max(extreme(long{static_cast<Lane>(a + b)}, c), 0l))
#define EMU_DPX_CHOICE(extreme, kind, Word) \
    inline Word __vib##extreme##_##kind(Word a, Word b, bool* first) { return *first = extreme(a, b) == a, extreme(a, b); }
#define EMU_DPX_CHOICES(extreme, kind, sign)                                                            \
    inline unsigned __vib##extreme##_##kind(unsigned a, unsigned b, bool* first_high, bool* first_low) { \
        unsigned chosen = __v##extreme##sign##2(a, b);                                                  \
        *first_high = (chosen ^ a) >> 16 == 0, *first_low = ((chosen ^ a) & 0xffff) == 0;               \
        return chosen;                                                                                  \
    }
#define EMU_DPX_ALL(extreme)                                                                            \
    EMU_DPX_SIGNED(extreme, s32, int, int32_t) EMU_DPX_SIGNED(extreme, s16x2, unsigned, int16_t)        \
    EMU_DPX(extreme, u32, unsigned, uint32_t) EMU_DPX(extreme, u16x2, unsigned, uint16_t)               \
    EMU_DPX_CHOICE(extreme, s32, int) EMU_DPX_CHOICE(extreme, u32, unsigned)                            \
    EMU_DPX_CHOICES(extreme, s16x2, s) EMU_DPX_CHOICES(extreme, u16x2, u)
EMU_DPX_ALL(min)
EMU_DPX_ALL(max)
#undef EMU_DPX_ALL
#undef EMU_DPX_CHOICES
#undef EMU_DPX_CHOICE
#undef EMU_DPX_SIGNED
#undef EMU_DPX
#undef EMU_OF_3
#undef EMU_OF_2
#undef EMU_OF_1
#undef EMU_BY_LANE
#undef EMU_LANE
#undef EMU_SATURATED
