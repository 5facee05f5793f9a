// The C library's own functions, whose usual names the sanitizer takes for checked ones.
#pragma once

#include <stddef.h>

extern "C" {
void* emu_libc_memcpy(void*, const void*, size_t) noexcept __asm__("memcpy");
void* emu_libc_memmove(void*, const void*, size_t) noexcept __asm__("memmove");
void* emu_libc_memset(void*, int, size_t) noexcept __asm__("memset");
}
