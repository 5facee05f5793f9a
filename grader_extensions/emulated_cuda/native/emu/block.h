// One block at a time on one OS thread: its threads run on fibers, and a fiber that never waits is used for thread
// after thread, so a kernel that does not synchronise costs one plain call each.
#pragma once

#include <string.h>

#include <memory>
#include <utility>
#include <vector>

#include "fiber.h"
#include "qualifiers.h"

// The shared memory of one worker: one reserved range of addresses, of which a 32-bit offset names every byte, as a shared address does on a
// GPU.  Every piece of memory in it ends at an unmapped page.  Knows nothing of blocks.
namespace emu EMU_HIDDEN {

class SharedWindow {
public:
    // Addresses only, no memory: room for the static variables of some thousand kernels.
    static constexpr size_t reserved_bytes = size_t{256} << 20;
    // Offsets have the alignment of the addresses that they stand for, up to this.
    static constexpr size_t aligned_bytes = 64 * 1024;

    SharedWindow() {
        void* p = mmap(nullptr, reserved_bytes + aligned_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return;
        base_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + aligned_bytes - 1) / aligned_bytes * aligned_bytes);
    }
    SharedWindow(const SharedWindow&) = delete;
    SharedWindow& operator=(const SharedWindow&) = delete;

    explicit operator bool() const { return base_ != nullptr; }

    // The end of new memory of at least that many bytes, with an unmapped page behind it and one before; null if there is none.
    char* extend(size_t bytes) {
        size_t rounded = (bytes + page_bytes - 1) / page_bytes * page_bytes;
        if (rounded + page_bytes > reserved_bytes - used_) return nullptr;
        char* begin = base_ + used_;
        if (mprotect(begin, rounded, PROT_READ | PROT_WRITE) != 0) return nullptr;
        used_ += rounded + page_bytes;
        return begin + rounded;
    }

    bool contains(const void* address) const { return static_cast<size_t>(static_cast<const char*>(address) - base_) < used_; }
    // 0, which is no shared address, for what is elsewhere.
    uint32_t offset_of(const void* address) const {
        return contains(address) ? static_cast<uint32_t>(static_cast<const char*>(address) - base_) : 0;
    }
    // An offset outside the window becomes 0, whose access is a fault.
    char* at(uint64_t offset) const { return base_ + (offset < used_ ? offset : 0); }

private:
    char* base_ = nullptr;
    size_t used_ = page_bytes;  // offset 0 and the page around it stay invalid
};

}  // namespace emu

#ifdef EMU_SANITIZE
extern "C" {  // the C library's own functions, whose usual names the sanitizer takes for checked ones
void* emu_libc_memcpy(void*, const void*, size_t) noexcept __asm__("memcpy");
void* emu_libc_memmove(void*, const void*, size_t) noexcept __asm__("memmove");
void* emu_libc_memset(void*, int, size_t) noexcept __asm__("memset");
}
#define EMU_COPY emu_libc_memcpy
#else
#define EMU_COPY memcpy
#endif

// The built-in variables.  The code that resumes a thread sets them; fibers never move to another OS thread.
inline EMU_THREAD_LOCAL uint3 threadIdx{};
inline EMU_THREAD_LOCAL uint3 blockIdx{};
inline EMU_THREAD_LOCAL dim3 blockDim{};
inline EMU_THREAD_LOCAL dim3 gridDim{};
inline constexpr int warpSize = 32;

// What the order of warps is drawn from; 0: as they are numbered. Two that differ in the highest bit give orders that are each other's
// reverse. The runner finds it by its name (sandbox/devices/emulated.py).
extern "C" {
__attribute__((weak, used, visibility("default"))) uint64_t grader_thread_order = 0;
}

namespace emu EMU_HIDDEN {

inline constexpr unsigned max_threads = 1024;
inline constexpr size_t max_shared_bytes = 227 * 1024;
inline constexpr size_t default_shared_bytes = 48 * 1024;
// What the end of dynamic shared memory is rounded to: the largest alignment that a declaration of it asks for.
inline size_t dynamic_alignment = 16;
// A NaN as fp16, bf16, float and double, and no plausible index: what uninitialised memory holds.
inline constexpr uint32_t poison = 0x7fff7fffu;

// Room for 16 KB of each thread's variables in a second body.  Pages are used when they are written.
inline constexpr size_t per_thread_bytes = size_t{max_threads} * 16 * 1024;

EMU_OUTLINE void fill_poison(void* memory, size_t bytes) {
    auto* to = static_cast<char*>(memory);
    for (size_t at = 0; at < bytes; at += sizeof poison) EMU_COPY(to + at, &poison, bytes - at < 4 ? bytes - at : 4);
}

struct Launch {
    const char* name;
    void (*run_thread)(const void* call);
    const void* call;
    dim3 grid, block;
    size_t dynamic_bytes;
    size_t shared_limit;  // static and dynamic together
    dim3 cluster{1, 1, 1};  // blocks that run together, unless the whole grid does
    bool cooperative = false;
    uint64_t order = 0;  // grader_thread_order, at the launch
    bool reversed() const { return order >> 63; }
    uint64_t blocks() const { return uint64_t{grid.x} * grid.y * grid.z; }
    unsigned threads() const { return block.x * block.y * block.z; }
};

enum class Collective : unsigned char { Active, Sync, Shuffle, Ballot, MatchAny, MatchAll, Add, Min, Max, MinSigned, MaxSigned, And, Or, Xor };

struct Thread {
    uint3 index;
    unsigned linear;
    Fiber* fiber;
    // What this thread brought to a warp-wide operation, and what it gets from it.
    unsigned mask;
    Collective operation;
    unsigned char source_lane;
    uint64_t given, received;

    unsigned lane() const { return linear % 32; }
};

struct Warp {
    unsigned live;     // lanes that have not exited
    unsigned waiting;  // lanes inside a warp-wide operation
};

struct SharedSlot {
    uint64_t block_serial = 0;
    void* address = nullptr;
    size_t granule = 16;
};

struct WarpRegisters;  // of tensor and matrix instructions, in warp_registers.h

class CopyQueue;       // of asynchronous copies, in copy_queue.h
struct NamedBarrier;   // of bar.sync with a number, in ptx/ptx.h
struct NamedBarriers;

class Worker;
inline EMU_THREAD_LOCAL Worker* worker = nullptr;

class Worker {
public:
    Worker() {
        if (!window_ || !(dynamic_end_ = window_.extend(max_shared_bytes))) abort();
    }
    // Runs every thread of a block; false if it was given up (then `failure` says why).
    bool run_block(const Launch& launch, uint3 block_index);

    void barrier(bool predicate);
    void collect(Collective operation, unsigned mask, uint64_t given, unsigned source_lane = 0);
    void yield();
    void* static_shared(unsigned slot, size_t bytes, size_t alignment);
    void* dynamic_shared() const { return dynamic_base_; }
    // Where the same place of shared memory lies for this worker's block; null if it has not come to that variable.
    void* counterpart(const Worker& own, const void* address) const;
    const SharedWindow& shared_window() const { return window_; }
    bool on_stack(const void* address) const { return address >= fiber_->stack.begin() && address < fiber_->stack.end(); }
    [[noreturn]] void give_up(int failure);

    struct BarrierVotes {
        unsigned count = 0;
        bool all = true, any = false;
    };
    const BarrierVotes& votes() const { return result_; }
    Thread& current() { return *current_; }
    const Warp& warp() const { return warps_[current_->linear / 32]; }
    const Launch* launch() const { return launch_; }
    bool in_kernel() const { return current_ != nullptr; }
#ifdef EMU_SANITIZE
    // For the hooks, which must not be instrumented.
    __attribute__((no_sanitize("thread", "alignment", "bounds"), always_inline)) Thread* running() const { return current_; }
    const Warp& warp_at(unsigned index) const { return warps_[index]; }
#endif
    int failure() const { return failure_; }
    CopyQueue& copy_queue();  // of the current thread
    BarrierVotes named_barrier(unsigned number, unsigned threads, bool predicate, bool arrives_only);
    [[noreturn]] void exit_thread();
    WarpRegisters& warp_registers();  // of the current thread's warp, made at their first use

    // The current thread, the block's first, runs the whole block; false where threads have begun, or blocks wait for each other.
    bool take_block();
    void* take_per_thread(size_t bytes, size_t alignment);
    size_t per_thread_used() const { return per_thread_used_; }
    void release_per_thread(size_t used) { per_thread_used_ = used; }
    bool has_whole_block() const { return whole_block_; }
    // Whether the kernel of the last block has a second body, so that its threads wait for nobody but each other.
    bool could_take_block() const { return could_take_block_; }

private:
    // An entry of what only some kernels need, made at its first use and cleared for each block.
    template <class T>
    T& of_block(std::shared_ptr<T[]>& entries, unsigned count, unsigned at) {
        if (!entries) entries = std::shared_ptr<T[]>(new T[count]);
        T& entry = entries[at];
        if (entry.block_serial != block_serial_) entry.clear();
        entry.block_serial = block_serial_;
        return entry;
    }
    static void fiber_main();
    void begin_block(const Launch& launch, uint3 block_index);
    void start_thread(unsigned linear);
    void end_thread();
    void wait();
    void resume_next(Context& from);
    Fiber* take_fiber();
    void release_barrier();
    void release_named(NamedBarrier& barrier);
    static void recheck_named(Worker& self);
    void draw_order();
    void make_ready(unsigned warp, uint32_t lanes);
    Thread* take_first();
    Thread* take_ready();
    bool can_run() const { return upcoming_ || ready_warps_ || spinning_head_ != spinning_tail_; }
    void complete_if_all_arrived(unsigned warp, unsigned wanted);
    bool complete_partial_collectives();
    bool complete_partial(bool active_only);

    const Launch* launch_ = nullptr;
    unsigned size_ = 0, live_ = 0, started_count_ = 0;
    uint64_t block_serial_ = 0;
    int failure_ = 0;
    Thread* current_ = nullptr;
    Fiber* fiber_ = nullptr;
    Context scheduler_;
    bool whole_block_ = false, could_take_block_ = false;
    std::unique_ptr<GuardedMemory> per_thread_;
    size_t per_thread_used_ = 0;

    // The threads that can run, those that have not started too.  A warp's lanes are at its number, exclusive-or'ed with order_: who comes
    // first runs until it waits.  So of any two warps each is ahead of the other in half of the orders.
    uint32_t ready_[max_threads / 32];
    Thread* upcoming_ = nullptr;  // the first, looked up ahead of time: the switch to its stack waits for it
    uint32_t ready_warps_ = 0, started_[max_threads / 32];
    unsigned order_ = 0, reverse_ = 0;
    uint64_t drawn_ = 0, block_number_ = 0;
    // Threads that spin run when no other can, in turn.
    unsigned spinning_head_ = 0, spinning_tail_ = 0;
    Thread* spinning_[max_threads];

    unsigned arrived_ = 0;
    BarrierVotes gathering_, result_;
    Thread threads_[max_threads];
    Warp warps_[max_threads / 32];

    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::vector<Fiber*> idle_;
    std::vector<SharedSlot> slots_;
    size_t static_bytes_ = 0;
    SharedWindow window_;
    char* dynamic_end_ = nullptr;
    void* dynamic_base_ = nullptr;
    std::shared_ptr<WarpRegisters[]> warp_registers_;
    std::shared_ptr<CopyQueue[]> copy_queues_;
    std::shared_ptr<NamedBarriers[]> named_;
    void (*after_exit_)(Worker&) = nullptr;  // set with the first numbered barrier
};

}  // namespace emu

#ifdef EMU_SANITIZE
#include "sanitizer/sanitizer.h"
#endif
#include "scheduler.h"
