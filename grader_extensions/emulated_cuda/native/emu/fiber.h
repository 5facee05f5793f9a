// Fibers: stacks that one OS thread switches between without a system call.  Knows nothing of CUDA.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "qualifiers.h"

namespace emu EMU_HIDDEN {

inline constexpr size_t page_bytes = 4096;
inline constexpr size_t stack_bytes = 256 * 1024;

// Memory with an unmapped page directly behind it (and one before): running over its end is a fault, not a surprise.
struct GuardedMemory {
    char* mapping = nullptr;
    size_t bytes = 0;  // usable, a multiple of the page size

    explicit GuardedMemory(size_t wanted) {
        bytes = (wanted + page_bytes - 1) / page_bytes * page_bytes;
        void* p = mmap(nullptr, bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return;
        mapping = static_cast<char*>(p);
        if (mprotect(begin(), bytes, PROT_READ | PROT_WRITE) != 0) release();
    }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;
    ~GuardedMemory() { release(); }

    explicit operator bool() const { return mapping != nullptr; }
    char* begin() const { return mapping + page_bytes; }
    char* end() const { return begin() + bytes; }
    void release() {
        if (mapping) munmap(mapping, bytes + 2 * page_bytes);
        mapping = nullptr;
    }
};

// A suspended stack: everything that the calling convention preserves lies on it, so its top says it all.
struct Context {
    void* top = nullptr;
};

// mxcsr and the x87 control word are left alone: no kernel changes them.  noipa: the compiler must not conclude from
// the body which registers survive the call.
__attribute__((naked, noipa)) inline void switch_stack(void** /*save*/, void* /*load*/) {
    asm("pushq %rbp\n\t"
        "pushq %rbx\n\t"
        "pushq %r12\n\t"
        "pushq %r13\n\t"
        "pushq %r14\n\t"
        "pushq %r15\n\t"
        "movq %rsp, (%rdi)\n\t"
        "movq %rsi, %rsp\n\t"
        "popq %r15\n\t"
        "popq %r14\n\t"
        "popq %r13\n\t"
        "popq %r12\n\t"
        "popq %rbx\n\t"
        "popq %rbp\n\t"
        "ret");
}

inline void switch_context(Context& from, Context& to) { switch_stack(&from.top, to.top); }

inline void prepare_context(Context& context, char* high, void (*entry)()) {
    // `ret` pops the entry; the convention wants the stack at 8 modulo 16 when a function starts.
    auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(high) & ~uintptr_t{15});
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    context.top = top;
}

struct Fiber {
    Context context;
    GuardedMemory stack{stack_bytes};
    char* top = nullptr;

    // Equal offsets in equal pages would put every stack's top into the same cache set.
    Fiber(unsigned number, void (*entry)()) {
        if (!stack) {
            fputs("emulated device: out of memory for thread stacks\n", stderr);
            abort();
        }
        top = stack.end() - (number % 61) * 320;
        prepare_context(context, top, entry);
    }
};

}  // namespace emu
