// Loads and stores with cache hints, clocks, and address-space questions: on the host all memory is one memory.
#pragma once

#include <time.h>

#include "fault.h"

template <class T>
EMU_INLINE T __ldg(const T* address) { return *address; }
#define EMU_LOAD(name)                           \
    template <class T>                           \
    EMU_INLINE T name(const T* address) {                   \
        return *address;                         \
    }
#define EMU_STORE(name)                          \
    template <class T>                           \
    EMU_INLINE void name(T* address, T value) {             \
        *address = value;                        \
    }
EMU_LOAD(__ldca) EMU_LOAD(__ldcg) EMU_LOAD(__ldcs) EMU_LOAD(__ldlu) EMU_LOAD(__ldcv)
EMU_STORE(__stwb) EMU_STORE(__stcg) EMU_STORE(__stcs) EMU_STORE(__stwt)
#undef EMU_LOAD
#undef EMU_STORE

inline unsigned long long __globaltimer() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long long>(now.tv_sec) * 1000000000ull + static_cast<unsigned long long>(now.tv_nsec);
}
// Named apart from the C library's clock(), which kernels reach by the same name.
inline long long clock64() {
#if defined(__x86_64__)
    return static_cast<long long>(__builtin_ia32_rdtsc());
#else
    return static_cast<long long>(__globaltimer());
#endif
}

[[noreturn]] inline void __trap() { emu::trap("__trap()"); }
inline void __brkpt() { emu::trap("__brkpt()"); }
inline size_t __cvta_generic_to_shared(const void* address) { return emu::worker->shared_window().offset_of(address); }
inline void* __cvta_shared_to_generic(size_t offset) { return emu::worker->shared_window().at(offset); }
// Global, constant and local addresses are the generic ones.
inline size_t __cvta_generic_to_global(const void* address) { return reinterpret_cast<size_t>(address); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline unsigned __isShared(const void* address) { return emu::worker->shared_window().contains(address); }
inline unsigned __isLocal(const void* address) { return emu::worker->on_stack(address); }
inline unsigned __isGlobal(const void* address) { return !__isShared(address) && !__isLocal(address); }
#define __builtin_assume(condition) ((void)0)
#define __assume(condition) ((void)0)
