// Functions of the C library that write through a pointer: they are not instrumented, so these stand before them.
#pragma once

#include <math.h>

#include "hooks.h"

extern "C" {
void emu_libm_sincosf(float, float*, float*) noexcept __asm__("sincosf");
void emu_libm_sincos(double, double*, double*) noexcept __asm__("sincos");
float emu_libm_frexpf(float, int*) noexcept __asm__("frexpf");
double emu_libm_frexp(double, int*) noexcept __asm__("frexp");
float emu_libm_modff(float, float*) noexcept __asm__("modff");
double emu_libm_modf(double, double*) noexcept __asm__("modf");
float emu_libm_remquof(float, float, int*) noexcept __asm__("remquof");
double emu_libm_remquo(double, double, int*) noexcept __asm__("remquo");
}

#define EMU_CHECKED_SINCOS(name, T)                                                      \
    EMU_HOOK void emu_checked_##name(T x, T* sine, T* cosine) noexcept {                 \
        emu::sanitizer::access_range(sine, sizeof *sine, EMU_CODE, true);                \
        emu::sanitizer::access_range(cosine, sizeof *cosine, EMU_CODE, true);            \
        emu_libm_##name(x, sine, cosine);                                                \
    }                                                                                    \
    extern "C" void name(T, T*, T*) noexcept __asm__("emu_checked_" #name);
#define EMU_CHECKED_SPLIT(name, T, Part)                                                 \
    EMU_HOOK T emu_checked_##name(T x, Part* part) noexcept {                            \
        emu::sanitizer::access_range(part, sizeof *part, EMU_CODE, true);                \
        return emu_libm_##name(x, part);                                                 \
    }                                                                                    \
    extern "C" T name(T, Part*) noexcept __asm__("emu_checked_" #name);
#define EMU_CHECKED_REMQUO(name, T)                                                      \
    EMU_HOOK T emu_checked_##name(T x, T y, int* quotient) noexcept {                    \
        emu::sanitizer::access_range(quotient, sizeof *quotient, EMU_CODE, true);        \
        return emu_libm_##name(x, y, quotient);                                          \
    }                                                                                    \
    extern "C" T name(T, T, int*) noexcept __asm__("emu_checked_" #name);
EMU_CHECKED_SINCOS(sincosf, float)
EMU_CHECKED_SINCOS(sincos, double)
EMU_CHECKED_SPLIT(frexpf, float, int)
EMU_CHECKED_SPLIT(frexp, double, int)
EMU_CHECKED_SPLIT(modff, float, float)
EMU_CHECKED_SPLIT(modf, double, double)
EMU_CHECKED_REMQUO(remquof, float)
EMU_CHECKED_REMQUO(remquo, double)
#undef EMU_CHECKED_SINCOS
#undef EMU_CHECKED_SPLIT
#undef EMU_CHECKED_REMQUO
