// Operators between torch's type EMU_TORCH of a 16-bit format and CUDA's EMU_T.  Included once for each format, by the header of torch's type.
// Under nvcc torch's flags hide CUDA's own operators and conversions, so that nothing is ambiguous there; here they stay.

namespace c10 {

#define EMU_MIXED(op, result)                                                                               \
    template <class A, class B, std::enable_if_t<emu::is_mixed<A, B, EMU_TORCH, EMU_T>, int> = 0>           \
    inline result operator op(const A& a, const B& b) {                                                     \
        return result(static_cast<float>(a) op static_cast<float>(b));                                      \
    }
EMU_MIXED(+, EMU_TORCH) EMU_MIXED(-, EMU_TORCH) EMU_MIXED(*, EMU_TORCH) EMU_MIXED(/, EMU_TORCH)
EMU_MIXED(==, bool) EMU_MIXED(!=, bool) EMU_MIXED(<, bool) EMU_MIXED(<=, bool) EMU_MIXED(>, bool) EMU_MIXED(>=, bool)
#undef EMU_MIXED

}  // namespace c10

#undef EMU_TORCH
#undef EMU_T
