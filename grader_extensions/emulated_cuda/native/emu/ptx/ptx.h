// What the translated asm statements of a file call.  Included where there are any.
#pragma once

#include <limits>

#include "../atomics.h"
#include "../copy_queue.h"
#include "arithmetic.h"
#include "../block.h"
#include "../device.h"
#include "../intrinsics.h"
#include "../tensor/formats.h"
#include "../warp_registers.h"

// Memory instructions of inline PTX (PTX ISA 8.7, 9.7.9 and 9.7.13): loads, stores, atomics, asynchronous copies, address spaces.
namespace emu EMU_HIDDEN {
namespace ptx {

inline char* emu_shared_address(uint32_t offset) { return worker->shared_window().at(offset); }
inline uint64_t emu_to_shared(uint64_t address) { return worker->shared_window().offset_of(reinterpret_cast<void*>(address)); }
inline uint64_t emu_from_shared(uint64_t offset) { return reinterpret_cast<uint64_t>(worker->shared_window().at(offset)); }
inline bool emu_is_shared_space(uint64_t address) { return __isShared(reinterpret_cast<void*>(address)); }
inline bool emu_is_global_space(uint64_t address) { return __isGlobal(reinterpret_cast<void*>(address)); }
inline bool emu_is_local_space(uint64_t address) { return __isLocal(reinterpret_cast<void*>(address)); }

// Vectors are aligned as a whole.
template <class T, unsigned count>
inline T* emu_aligned(char* address) {
    if (reinterpret_cast<uintptr_t>(address) % (sizeof(T) * count)) trap("misaligned address in inline PTX");
    return reinterpret_cast<T*>(address);
}

template <class T, unsigned count>
inline void emu_load(T (&to)[count], char* from) { memcpy(to, emu_aligned<T, count>(from), sizeof to); }
template <class T, unsigned count>
inline void emu_store(char* to, const T (&from)[count]) { memcpy(static_cast<void*>(emu_aligned<T, count>(to)), from, sizeof from); }
// Volatile, relaxed, acquire and release: a thread that spins on one lets the others run.
template <class T, unsigned count>
inline void emu_load_ordered(T (&to)[count], char* from) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(emu_aligned<T, count>(from));
    count_atomic();
    for (unsigned at = 0; at < count; ++at) to[at] = __builtin_bit_cast(T, __atomic_load_n(bits + at, __ATOMIC_SEQ_CST));
}
template <class T, unsigned count>
inline void emu_store_ordered(char* to, const T (&from)[count]) {
    using Bits = typename BitsOf<T>::type;
    auto* bits = reinterpret_cast<Bits*>(emu_aligned<T, count>(to));
    for (unsigned at = 0; at < count; ++at) __atomic_store_n(bits + at, __builtin_bit_cast(Bits, from[at]), EMU_SWAP_ORDER);
}

#define EMU_PTX_ATOMIC(name, next)                                     \
    template <class T>                                                 \
    inline T emu_atomic_##name(T* address, T value) {                  \
        count_atomic();                                                \
        return update(address, [value](T old) -> T { return next; });  \
    }
EMU_PTX_ATOMIC(add, (emu_add<T, 0>(old, value)))
EMU_PTX_ATOMIC(min, (emu_minimum<T, 0>(old, value)))
EMU_PTX_ATOMIC(max, (emu_maximum<T, 0>(old, value)))
EMU_PTX_ATOMIC(and, static_cast<T>(old & value))
EMU_PTX_ATOMIC(or, static_cast<T>(old | value))
EMU_PTX_ATOMIC(xor, static_cast<T>(old ^ value))
EMU_PTX_ATOMIC(inc, old >= value ? T{0} : old + 1)
EMU_PTX_ATOMIC(dec, old == 0 || old > value ? value : old - 1)
#undef EMU_PTX_ATOMIC
template <class T>
inline T emu_atomic_exch(T* address, T value) { return exchange_value(address, value); }
template <class T>
inline T emu_atomic_cas(T* address, T compare, T value) {
    using Bits = typename BitsOf<T>::type;
    return emu_read<T>(compare_and_swap(reinterpret_cast<Bits*>(address), emu_read<Bits>(compare), emu_read<Bits>(value)));
}

// cp.async: 4, 8 or 16 bytes, .cg only 16; what `given` leaves is filled with zeros.
template <bool only16>
EMU_INLINE void emu_copy_async(char* to, const char* from, uint32_t bytes, uint32_t given) {
    if (bytes != 16 && (only16 || (bytes != 4 && bytes != 8))) trap("cp.async of a size that it has not");
    if (given > bytes) trap("cp.async with a src-size above its cp-size");
    if ((reinterpret_cast<uintptr_t>(to) | (given ? reinterpret_cast<uintptr_t>(from) : 0)) % bytes) trap("misaligned address in cp.async");
    copy_queue().add(to, from, bytes, given);
}

}  // namespace ptx

// The 16 barriers of a block that bar.sync and bar.arrive name, and threads that exit in the middle.

// One barrier.  A warp whose every live lane has arrived counts as 32 threads, as on the device.
struct NamedBarrier {
    unsigned wanted = 0;  // threads; 0 for all of the block
    unsigned threads = 0, arrived = 0;
    uint32_t lanes[max_threads / 32] = {};
    Worker::BarrierVotes votes;
    std::vector<Thread*> waiting;
};

struct NamedBarriers {
    uint64_t block_serial = 0;
    NamedBarrier barriers[16];

    void clear() {
        for (NamedBarrier& barrier : barriers) barrier = {};
    }
};

inline uint64_t pack_votes(const Worker::BarrierVotes& votes) { return votes.count | uint64_t{votes.all} << 32 | uint64_t{votes.any} << 33; }

EMU_UNCHECKED void Worker::release_named(NamedBarrier& barrier) {
    EMU_TELL(named_released(barrier.lanes));
    for (Thread* thread : barrier.waiting) {
        thread->received = pack_votes(barrier.votes);
        make_ready(thread->linear / 32, 1u << thread->lane());
    }
    barrier = {};
}

inline void Worker::recheck_named(Worker& self) {
    if (self.named_[0].block_serial != self.block_serial_) return;
    for (NamedBarrier& barrier : self.named_[0].barriers)
        if (barrier.arrived && !barrier.wanted && barrier.arrived == self.live_) self.release_named(barrier);
}

EMU_OUTLINE Worker::BarrierVotes Worker::named_barrier(unsigned number, unsigned threads, bool predicate, bool arrives_only) {
    if (number > 15) trap("bar.sync with a number above 15");
    if (threads % 32) trap("bar.sync with a number of threads that is not a multiple of 32");
    if (number == 0 && !arrives_only && (threads == 0 || threads == (size_ + 31) / 32 * 32)) {
        EMU_TELL(barrier_called_at(__builtin_return_address(0)));
        this->barrier(predicate);
        return result_;
    }
    after_exit_ = recheck_named;
    NamedBarrier& barrier = of_block(named_, 1, 0).barriers[number];
    if (barrier.arrived && barrier.wanted != threads) trap("bar.sync with another number of threads than those who wait at that barrier");
    barrier.wanted = threads;
    barrier.votes.count += predicate, barrier.votes.all &= predicate, barrier.votes.any |= predicate;
    unsigned warp = current_->linear / 32, before = barrier.lanes[warp];
    barrier.lanes[warp] |= 1u << current_->lane();
    ++barrier.arrived;
    barrier.threads += 1;
    if (before != barrier.lanes[warp] && barrier.lanes[warp] == warps_[warp].live)
        barrier.threads += 32 - static_cast<unsigned>(__builtin_popcount(barrier.lanes[warp]));
    bool complete = threads ? barrier.threads >= threads : barrier.arrived == live_;
    if (!arrives_only) barrier.waiting.push_back(current_);
    if (complete) release_named(barrier);
    if (!arrives_only) wait();
    uint64_t votes = current_->received;
    return {static_cast<unsigned>(votes), (votes >> 32 & 1) != 0, (votes >> 33 & 1) != 0};
}

// The stack of a thread that exits in the middle is used again from its start.
[[noreturn]] inline void Worker::exit_thread() {
    end_thread();
    prepare_context(fiber_->context, fiber_->stack.begin(), fiber_->top, &Worker::fiber_main);
    idle_.push_back(fiber_);
    Context abandoned;
    resume_next(abandoned);
    __builtin_unreachable();
}

// What a warp or a block does together in inline PTX (PTX ISA 8.7, 9.7.9.6, 9.7.13), and the special registers (chapter 10).
namespace ptx {

// up 0, down 1, bfly 2, idx 3.  `bounds` holds the clamp in its bits 0 to 4 and the segment's mask in 8 to 12.
template <unsigned mode>
inline uint32_t emu_shuffle(uint32_t value, uint32_t by, uint32_t bounds, uint32_t mask, bool& in_range) {
    int lane = static_cast<int>(emu::lane()), b = static_cast<int>(by & 31), clamp = static_cast<int>(bounds & 31);
    int segment = static_cast<int>(bounds >> 8 & 31), first = lane & segment, last = first | (clamp & ~segment);
    int source = mode == 0 ? lane - b : mode == 1 ? lane + b : mode == 2 ? lane ^ b : first | (b & ~segment);
    in_range = mode == 0 ? source >= last : source <= last;
    return shuffle(mask, value, static_cast<unsigned>(in_range ? source : lane));
}

// The device elects the lowest lane of the mask.
inline uint32_t emu_elect(uint32_t mask) {
    worker->collect(Collective::Sync, mask, 0);
    uint32_t present = mask & worker->warp().live;
    return static_cast<uint32_t>(__builtin_ctz(present ? present : 1u << emu::lane()));
}

inline Worker::BarrierVotes emu_barrier(uint32_t number, uint32_t threads, bool predicate, bool arrives_only) {
    return worker->named_barrier(number, threads, predicate, arrives_only);
}
[[noreturn]] inline void emu_exit() { worker->exit_thread(); }

#define EMU_PTX_AXES(name, variable)                          \
    inline uint32_t emu_##name##_x() { return ::variable.x; } \
    inline uint32_t emu_##name##_y() { return ::variable.y; } \
    inline uint32_t emu_##name##_z() { return ::variable.z; }
EMU_PTX_AXES(tid, threadIdx)
EMU_PTX_AXES(ntid, blockDim)
EMU_PTX_AXES(ctaid, blockIdx)
EMU_PTX_AXES(nctaid, gridDim)
#undef EMU_PTX_AXES

inline uint32_t emu_laneid() { return emu::lane(); }
inline uint32_t emu_warpid() { return worker->current().linear / 32; }
inline uint32_t emu_nwarpid() { return max_threads / 32; }
inline uint32_t emu_smid() { return 0; }
inline uint32_t emu_nsmid() { return static_cast<uint32_t>(device_properties().multiProcessorCount); }
inline uint32_t emu_gridid() { return 0; }
inline uint32_t emu_warp_lanes() { return 32; }
inline uint32_t emu_dynamic_shared_bytes() { return static_cast<uint32_t>(worker->launch()->dynamic_bytes); }
inline uint32_t emu_lanemask_eq() { return 1u << emu::lane(); }
inline uint32_t emu_lanemask_lt() { return emu_lanemask_eq() - 1; }
inline uint32_t emu_lanemask_le() { return emu_lanemask_lt() | emu_lanemask_eq(); }
inline uint32_t emu_lanemask_gt() { return ~emu_lanemask_le(); }
inline uint32_t emu_lanemask_ge() { return ~emu_lanemask_lt(); }
inline uint64_t emu_clock_cycles() { return static_cast<uint64_t>(clock64()); }
inline uint32_t emu_clock_cycles_low() { return static_cast<uint32_t>(clock64()); }
inline uint32_t emu_clock_cycles_high() { return static_cast<uint32_t>(emu_clock_cycles() >> 32); }
inline uint64_t emu_global_timer() { return __globaltimer(); }

// Conversions of inline PTX (PTX ISA 8.7, 9.7.9.21): between integers and floats, in pairs, tf32 and fp8.

template <class T>
inline constexpr bool is_float_kind = is_short<T> || std::is_floating_point_v<T>;

template <unsigned flags>
inline double rounded_to_integer(double value) {
    return (flags & Rz) ? ::trunc(value) : (flags & Rm) ? ::floor(value) : (flags & Rp) ? ::ceil(value) : ::rint(value);
}

// An integer from a double; out of range is the nearest, and NaN zero, or the highest bit alone where one of the types has 64 bits.
template <class To, class From>
inline To clamped(double value) {
    if (value != value) return sizeof(To) == 8 || sizeof(From) == 8 ? static_cast<To>(Unsigned<To>{1} << (bits_of<To> - 1)) : To{0};
    if (value <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
}

template <class To, class From>
inline To saturated(From value) {
    if constexpr (std::is_signed_v<From>) {
        if (value < 0 && (!std::is_signed_v<To> || static_cast<int64_t>(value) < static_cast<int64_t>(std::numeric_limits<To>::min())))
            return std::numeric_limits<To>::min();
        if (value < 0) return static_cast<To>(value);
    }
    return static_cast<uint64_t>(value) > static_cast<uint64_t>(std::numeric_limits<To>::max()) ? std::numeric_limits<To>::max() : static_cast<To>(value);
}

// A 64-bit integer as float in one rounding of the direction that the flags say.
template <unsigned flags, class From>
inline float float_of_integer(From value) {
    float near = static_cast<float>(value);
    if constexpr ((flags & (Rz | Rm | Rp)) != 0) {
        auto exact = static_cast<long double>(value), back = static_cast<long double>(near);
        bool up = (flags & Rp) || ((flags & Rz) && value < 0);
        if (up ? back < exact : back > exact) near = __builtin_nextafterf(near, up ? __builtin_inff() : -__builtin_inff());
    }
    return near;
}

template <class To, class From, unsigned flags>
inline To emu_convert(From value) {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        return (flags & Sat) ? saturated<To>(value) : static_cast<To>(value);
    } else if constexpr (std::is_integral_v<From>) {
        if constexpr (is_short<To>) return {narrowed<typename To::Format, flags>(static_cast<double>(value))};
        else if constexpr (std::is_same_v<To, float>) return finished<flags>(float_of_integer<flags>(value));
        else return static_cast<double>(value);
    } else {
        double given;
        if constexpr (is_short<From>) given = wide<typename From::Format>(value.bits);
        else given = input<flags>(value);
        if constexpr (std::is_integral_v<To>) {
            return clamped<To, From>(rounded_to_integer<flags>(given));
        } else {
            if constexpr ((flags & IntegerRounding) != 0) given = rounded_to_integer<flags>(given);
            if constexpr (is_short<To>) return {narrowed<typename To::Format, (flags & IntegerRounding) ? flags & ~(Rz | Rm | Rp) : flags>(given)};
            else if constexpr (std::is_same_v<To, float>) return finished<flags>(to_float<flags>(given));
            else return (flags & Sat) ? (given > 0 ? (given < 1 ? given : 1.0) : 0.0) : given;
        }
    }
}

// fp8: the largest finite number instead of what lies beyond.
struct E4m3 {
    static constexpr auto kind = __NV_E4M3;
};
struct E5m2 {
    static constexpr auto kind = __NV_E5M2;
};

// The first operand becomes the upper half.
template <class To, unsigned flags>
inline auto emu_convert_two(float a, float b) {
    if constexpr (is_pair<To>) {
        using F = typename To::Format;
        auto one = [](float value) {
            uint16_t bits = narrowed<F, flags>(static_cast<double>(value));
            bool infinite = F::to_float(bits) == __builtin_inff() || F::to_float(bits) == -__builtin_inff();
            return static_cast<uint16_t>((flags & SatFinite) && infinite ? bits - 1 : bits);
        };
        return To{one(b), one(a)};
    } else {
        auto one = [](float value) { return encode_fp8((flags & Relu) && value <= 0 ? 0.0f : value, __NV_SATFINITE, To::kind); };
        return static_cast<uint16_t>(one(a) << 8 | one(b));
    }
}
template <class F, unsigned flags>
inline uint16_t emu_pack_fp8(Half2 pair) {
    return emu_convert_two<F, flags>(HalfFormat::to_float(pair.high), HalfFormat::to_float(pair.low));
}
template <class F, unsigned flags>
inline Half2 emu_unpack_fp8(uint16_t bits) {
    auto one = [](uint32_t code) { return narrowed<HalfFormat, flags>(fp8_to_float(code & 0xff, F::kind)); };
    return {one(bits), one(bits >> 8)};
}

// tf32: 10 fraction bits in a float's place; rna rounds halves away from zero, rn to even.
template <unsigned flags>
inline uint32_t emu_to_tf32(float value) {
    uint32_t bits = bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu;
    if ((flags & Relu) && (bits >> 31)) return 0;
    if ((bits & 0x7fffffffu) == 0x7f800000u) return bits;
    if constexpr ((flags & Rz) == 0) bits += (flags & Rna) ? 0x1000u : 0xfffu + (bits >> 13 & 1);
    return bits & ~0x1fffu;
}

// ldmatrix, stmatrix and movmatrix (PTX ISA 8.7, 9.7.14.5.15 to 9.7.14.5.17): matrices of 8 x 8 elements of 16 bits.

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
