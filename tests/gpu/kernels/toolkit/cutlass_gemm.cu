// cases: linear
// expect: ACCEPTED
// needs: cutlass/cutlass.h
// CUTLASS's own GEMM for Hopper, by its collective builders, which are made of CuTe. An assert in its loop would end the pipeline of wgmma.
#define NDEBUG
#include <cstdint>

#include <cuda_fp16.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

using Half = cutlass::half_t;
using Rows = cutlass::layout::RowMajor;
using Columns = cutlass::layout::ColumnMajor;  // of w.T, whose rows are k long
using Tile = cute::Shape<cute::_128, cute::_128, cute::_64>;
using Cluster = cute::Shape<cute::_2, cute::_1, cute::_1>;
using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float, void,
    Rows, 8, Half, Rows, 8, cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, Rows, 8, Half, Columns, 8, float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<sizeof(typename Epilogue::SharedStorage)>,
    cutlass::gemm::collective::KernelScheduleAuto>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

extern "C" void solve(const __half* x, const __half* w, __half* out, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    const int rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
    const auto of_x = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {rows, depth, 1});
    const auto of_w = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {columns, depth, 1});
    const auto of_out = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {rows, columns, 1});
    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {rows, columns, depth, 1},
        {reinterpret_cast<const Half*>(x), of_x, reinterpret_cast<const Half*>(w), of_w},
        {{1.0f, 0.0f}, nullptr, {}, reinterpret_cast<Half*>(out), of_out}};
    Gemm gemm;
    if (gemm.initialize(arguments, nullptr, stream) == cutlass::Status::kSuccess) gemm.run(stream);
}
