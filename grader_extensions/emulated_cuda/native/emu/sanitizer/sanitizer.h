// The emulated device's sanitizer, for EMU_SANITIZE: finds races, accesses out of bounds, reads of what nobody wrote, misaligned accesses,
// divergent barriers and absent lanes.  g++ instruments the code (grader_extensions/emulated_cuda/gcc.py); the hooks are here.
#pragma once

#include "hooks.h"
#include "counts.h"
#include "barriers.h"

// Atomics under -fsanitize=thread: g++ has these calls do the work.  They do not race with each other, only with plain accesses.
namespace emu EMU_HIDDEN {
namespace sanitizer {

inline constexpr int release = 3;  // the least of g++'s orders that tells others

EMU_COLD inline void check_atomic(uintptr_t address, unsigned bytes, const void* code, int order, bool reads, bool writes, bool swaps) {
    if (order >= release && writes) fence(device_scope);
    synchronise_by(address, writes);  // of memory that is not watched, too, as a `__device__` variable is
    Page* page = page_of(address);
    if (!page) return;
    if (clock.self == Clock::host) return writes ? mark_initialised(reinterpret_cast<const void*>(address), bytes) : void();
    last_code = code;
    uint32_t self = clock.self, who = who_is_at(code);
    if (swaps && suspects[self].waits && suspects[self].conflict.address == address) suspects[self].waits = false;
    bool reported = false;
    for (uintptr_t at = address & ~uintptr_t{3}; at < address + bytes; at += 4) {
        if (at >> page_shift != page->number) return;  // misaligned: not an atomic on any device
        Cell& cell = page->cells[(at >> 2) % page_cells];
        uint32_t mask = byte_mask(at, address, address + bytes);
        if (reads && (cell.bits >> allocated_shift & mask) == mask && (cell.bits >> initialised_shift & mask) != mask && !reported) {
            report_uninitialised(at, place_in(who));
            reported = true;
        }
        // A plain read before one's own compare-and-swap is how loops over it begin: the swap says whether it was current.
        if (swaps && cell.read_time >= clock.block && (cell.reader & 1023) == self && !(cell.bits & (many_lanes | many_warps))) cell.read_time = 0;
        if (writes) reported = write_cell(cell, address, at, bytes, mask, who, Kind::Atomic, reported);
        else if (may_race(cell.write_time) && !reported) reported = check_writer(cell, address, bytes, mask, who, false, Kind::Atomic);
    }
}

EMU_RAW inline void before_atomic(const volatile void* pointer, unsigned bytes, const void* code, int order, bool reads, bool writes,
                                  bool swaps = false) {
    if (pending.waits) settle_pending();
    if (clock.counts && writes) count_access(reinterpret_cast<uintptr_t>(pointer), bytes, code, Access::Atomic);
    if (locals.unwritten_bytes) check_local(reinterpret_cast<uintptr_t>(pointer), bytes, code, !reads);
    check_atomic(reinterpret_cast<uintptr_t>(pointer), bytes, code, order, reads, writes, swaps);
}

#define EMU_ATOMIC_UPDATE(bits, T, name)                                                                      \
    EMU_HOOK T __tsan_atomic##bits##_##name(volatile void* p, T value, int order) {                           \
        before_atomic(p, bits / 8, EMU_CODE, order, true, true);                              \
        return __atomic_##name(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST);                         \
    }
#define EMU_ATOMIC_SWAP(bits, T, kind)                                                                                    \
    EMU_HOOK bool __tsan_atomic##bits##_compare_exchange_##kind(volatile void* p, void* expected, T value, int order, int) { \
        before_atomic(p, bits / 8, EMU_CODE, order, true, true, true);                                    \
        return __atomic_compare_exchange_n(static_cast<volatile T*>(p), static_cast<T*>(expected), value, false, __ATOMIC_SEQ_CST, \
                                           __ATOMIC_SEQ_CST);                                                             \
    }
#define EMU_ATOMIC_HOOKS(bits, T)                                                                             \
    EMU_HOOK T __tsan_atomic##bits##_load(const volatile void* p, int order) {                                \
        before_atomic(p, bits / 8, EMU_CODE, order, true, false);                             \
        return __atomic_load_n(static_cast<const volatile T*>(p), __ATOMIC_SEQ_CST);                          \
    }                                                                                                         \
    EMU_HOOK void __tsan_atomic##bits##_store(volatile void* p, T value, int order) {                         \
        before_atomic(p, bits / 8, EMU_CODE, order, false, true);                             \
        __atomic_store_n(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST);                               \
    }                                                                                                         \
    EMU_HOOK T __tsan_atomic##bits##_exchange(volatile void* p, T value, int order) {                         \
        before_atomic(p, bits / 8, EMU_CODE, order, false, true);                             \
        return __atomic_exchange_n(static_cast<volatile T*>(p), value, __ATOMIC_SEQ_CST);                     \
    }                                                                                                         \
    EMU_ATOMIC_UPDATE(bits, T, fetch_add)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_sub)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_and)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_or)                                                                      \
    EMU_ATOMIC_UPDATE(bits, T, fetch_xor)                                                                     \
    EMU_ATOMIC_UPDATE(bits, T, fetch_nand)                                                                    \
    EMU_ATOMIC_SWAP(bits, T, strong)                                                                          \
    EMU_ATOMIC_SWAP(bits, T, weak)                                                                            \
    EMU_HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile void* p, T expected, T value, int order, int) {           \
        before_atomic(p, bits / 8, EMU_CODE, order, true, true, true);                        \
        __atomic_compare_exchange_n(static_cast<volatile T*>(p), &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
        return expected;                                                                                      \
    }
EMU_ATOMIC_HOOKS(8, unsigned char)
EMU_ATOMIC_HOOKS(16, unsigned short)
EMU_ATOMIC_HOOKS(32, unsigned int)
EMU_ATOMIC_HOOKS(64, unsigned long)
#undef EMU_ATOMIC_HOOKS
#undef EMU_ATOMIC_UPDATE
#undef EMU_ATOMIC_SWAP

EMU_HOOK void __tsan_atomic_thread_fence(int) {
    fence(device_scope);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EMU_HOOK void __tsan_atomic_signal_fence(int) {}

// What g++ calls under -fsanitize=alignment,bounds, with the static description of the place that it made (gcc/ubsan.cc).

struct TypeDescriptor {
    uint16_t kind, information;
    char name[1];  // quoted
};
struct SourceLocation {
    const char* file;
    uint32_t line, column;
};
struct OutOfBoundsData {
    SourceLocation location;
    const TypeDescriptor* array;
    const TypeDescriptor* index;
};
struct TypeMismatchData {
    SourceLocation location;
    const TypeDescriptor* type;
    unsigned char log_alignment, check_kind;
};

// A value of up to 64 bits is passed itself; its descriptor says whether it is signed.
EMU_COLD inline void report_bounds(const OutOfBoundsData& data, uintptr_t index, const void* code) {
    if (!worker || !worker->running()) return;
    uint32_t place = place_of(code);
    Finding* finding = enter("out_of_bounds", Severity::Error, place);
    if (!finding) return;
    unsigned bits = 1u << (data.index->information >> 1);
    long long value = static_cast<long long>(index);
    if (data.index->information & 1 && bits < 64) value = static_cast<long long>(static_cast<uint64_t>(index) << (64 - bits)) >> (64 - bits);
    snprintf(finding->memory, sizeof finding->memory, "%.60s", data.array->name);
    finish(*finding, "{0} uses index %lld, which is outside the array of type %.200s", value, data.array->name);
}

EMU_COLD inline void report_misaligned(const TypeMismatchData& data, uintptr_t address, const void* code) {
    if (!worker || !worker->running()) return;
    uint32_t place = place_of(code);
    Finding* finding = enter("misaligned", Severity::Error, place);
    if (!finding) return;
    Memory memory = memory_at(address);
    add_memory(*finding, memory);
    const char* what = data.check_kind == 0 ? "reads" : data.check_kind == 1 ? "writes" : "uses";
    finish(*finding, "{0} %s %.120s at byte %zu of %s: the address must be a multiple of %u", what, data.type->name,
           static_cast<size_t>(memory.region ? address - memory.begin : address % 4096), memory.region ? describe(memory).text : "a page",
           1u << data.log_alignment);
}

EMU_HOOK void __ubsan_handle_out_of_bounds(void* data, void* index) {
    report_bounds(*static_cast<OutOfBoundsData*>(data), reinterpret_cast<uintptr_t>(index), EMU_CODE);
}
EMU_HOOK void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
    report_misaligned(*static_cast<TypeMismatchData*>(data), reinterpret_cast<uintptr_t>(address), EMU_CODE);
}

EMU_COLD inline void memory_allocated(const void* address, size_t bytes) {
    prepare();
    add_region(address, bytes, "", Space::Global, true, false, false);
}
EMU_COLD inline void memory_released(const void* address) { remove_region(reinterpret_cast<uintptr_t>(address)); }

EMU_COLD inline void launch_begins() {
    prepare();
    if (pending.waits) settle_pending();
    clock.launch = clock.block = clock.barrier = ++clock.time;
    // Kernels lay out shared memory differently.
    for (size_t i = regions.count; i-- > 0;)
        if (regions.list[i].space == Space::Shared) remove_region(regions.list[i].begin);
    variables.count = 0;
}

EMU_COLD inline void launch_ends() {
    ++clock.time;
    flush_findings();
    count_launch();
}

EMU_COLD inline void block_begins() {
    clock.block = clock.barrier = ++clock.time;
    forget_locals_of_block();
    reset_order();
    reset_barriers();
    count_block();
}

// While the last thread is still the current one.
EMU_COLD inline void block_ends() {
    if (pending.waits) settle_pending();
    if (any_suspect) settle_suspects();
    end_counted_block();
    clock.self = Clock::host;
}

EMU_COLD inline void shared_memory(const void* address, size_t bytes, const char* name) {
    if (bytes == 0) return;
    auto begin = reinterpret_cast<uintptr_t>(address);
    const Region* known = region_at(begin);
    if (!known || known->end != begin + bytes || known->space != Space::Shared)
        return add_region(address, bytes, name, Space::Shared, true, false, false);
    for (uintptr_t number = begin >> page_shift; number <= (begin + bytes - 1) >> page_shift; ++number)
        if (Page* page = find_page(number)) reset_cells(*page, *known, begin, begin + bytes);
}

// Names a variable that lies in the block's shared memory, and hands it on.
template <class T>
EMU_RAW inline T& named(T& variable, const char* name) {
    name_variable(reinterpret_cast<uintptr_t>(&variable), sizeof variable, name);
    return variable;
}

EMU_RAW inline __attribute__((always_inline)) void thread_runs(unsigned linear) {
    clock.self = linear;
    clock.stack = reinterpret_cast<uintptr_t>(worker->running()->fiber->stack.mapping) + page_bytes;
    last_code = nullptr;
}

EMU_COLD inline void thread_ends() {
    if (pending.waits) settle_pending();
    settle_suspect(self_linear());
    if (locals.live) forget_locals(locals.table->threads[self_linear()]);
    thread_left(self_linear());
}

EMU_COLD inline void barrier_released() {
    if (pending.waits) settle_pending();
    if (any_suspect) settle_suspects();
    judge_barrier();
    join_block();
    count_barrier();
}

// Those warps of the block that have a lane at a barrier of their own.
EMU_COLD inline void named_released(const uint32_t* lanes) {
    if (pending.waits) settle_pending();
    uint32_t warps = 0;
    for (unsigned warp = 0; warp < 32; ++warp)
        if (lanes[warp]) warps |= 1u << warp;
    join_warps(warps);
}

// The process is about to die of what the current thread did.
EMU_COLD inline void faulted(const void* address, const void* code) {
    if (pending.waits) settle_pending();
    flush_counts();
    if (!code) return flush_findings();
    // The instruction itself, where others are what lies behind it.
    report_out_of_bounds(reinterpret_cast<uintptr_t>(address), "reads or writes", place_of(code) + 1);
    flush_findings();
}

struct FailedLaunch {
    uint32_t place;
    const char* error;
};
inline constinit FailedLaunch failed_launch{};
inline constinit const void* launch_code = nullptr;  // of the launch that is being made

EMU_COLD inline void launch_here() { launch_code = EMU_CODE; }

EMU_COLD inline void report_failed_launch() {
    if (!launch_unchecked) return;
    launch_unchecked = false;
    bool unsupported = strcmp(failed_launch.error, "cudaErrorNotSupported") == 0;  // by the sanitizer only
    Finding* finding = enter("unchecked_launch", unsupported ? Severity::Info : Severity::Error, failed_launch.place);
    if (!finding) return;
    if (unsupported) finish(*finding, "the launch at {0} was not run: the sanitizer follows neither cooperative launches nor clusters");
    else finish(*finding, "the launch at {0} failed with %s, so the kernel did not run, and the host never asked", failed_launch.error);
}

EMU_COLD inline void launch_failed(const char* error) {
    prepare();
    report_failed_launch();
    failed_launch = {place_of(launch_code), error};
    launch_unchecked = true;
    report_unchecked = &report_failed_launch;
}

__attribute__((destructor)) EMU_COLD inline void process_ends() {
    report_failed_launch();
    flush_findings();
    flush_counts();
}

}  // namespace sanitizer
}  // namespace emu

// Names memory that does not come from cudaMalloc.  The grader calls it before a launch, for every tensor.
extern "C" __attribute__((weak, used, visibility("default"), noinline)) EMU_RAW void emu_sanitizer_region(
    void* begin, size_t bytes, const char* name, int writable, int initialised) {
    emu::sanitizer::prepare();
    emu::sanitizer::add_region(begin, bytes, name, emu::sanitizer::Space::Global, writable != 0, initialised != 0, true);
}
