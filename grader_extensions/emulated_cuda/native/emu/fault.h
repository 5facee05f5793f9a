// Says where a kernel died before the process dies of it: writes one line and lets the signal take its course.
#pragma once

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "block.h"

namespace emu EMU_HIDDEN {

inline struct sigaction previous_action[NSIG];

inline void describe_fault(const char* what) {
    char line[512];
    char place[64] = "";  // in a second body a thread is a turn of a loop, whose number nobody keeps
    uint3 thread = worker->current().index;
    if (!worker->has_whole_block()) snprintf(place, sizeof place, " thread (%u,%u,%u)", thread.x, thread.y, thread.z);
    int length = snprintf(line, sizeof line, "emulated device: %s in kernel %s, block (%u,%u,%u)%s\n", what, worker->launch()->name,
                          blockIdx.x, blockIdx.y, blockIdx.z, place);
    if (length > static_cast<int>(sizeof line)) length = sizeof line;
    if (write(2, line, static_cast<size_t>(length)) < 0) return;
}

#ifdef EMU_SANITIZE
// Where the instruction that faulted stands; null where the signal is none of an access, or of one that is misaligned.
inline const void* faulting_code(int signal_number, const siginfo_t* details, void* context) {
    if (signal_number == SIGFPE || details->si_code == SI_KERNEL || !context) return nullptr;
#if defined(__x86_64__)
    return reinterpret_cast<const void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
    return nullptr;
#endif
}
#endif

inline void on_fault(int signal_number, siginfo_t* details, void* context) {
    static_cast<void>(details), static_cast<void>(context);
    if (worker && worker->in_kernel())
        describe_fault(signal_number == SIGFPE ? "integer division by zero" : "illegal address");
    if (worker && worker->in_kernel()) EMU_TELL(faulted(details->si_addr, faulting_code(signal_number, details, context)));
    // The instruction runs again under whatever was there before us: nothing is hidden.
    sigaction(signal_number, &previous_action[signal_number], nullptr);
}

// The handler needs a stack of its own: the fault may be the overflow of a thread's stack.
inline void watch_faults() {
    static constexpr size_t alternate_bytes = 64 * 1024;
    stack_t present{};
    if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE)) {
        stack_t alternate{};
        alternate.ss_sp = malloc(alternate_bytes);
        alternate.ss_size = alternate_bytes;
        sigaltstack(&alternate, nullptr);
    }
    static const bool installed = [] {
        struct sigaction action {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int signal_number : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal_number, &action, &previous_action[signal_number]);
        return true;
    }();
    (void)installed;
}

[[noreturn]] void trap(const char* what);

}  // namespace emu
