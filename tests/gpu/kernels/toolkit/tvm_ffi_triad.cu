// cases: triad
// expect: ACCEPTED
// language: tvm_ffi
// needs: tvm_ffi
// As FlashInfer-Bench has it: tensors by TVM-FFI, outputs behind inputs, launched on the stream of its environment.
#include <cstdint>

#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

__global__ void triad(const float* a, const float* b, float* out, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = 2.0f * a[i] + b[i];
}

void run(ffi::TensorView a, ffi::TensorView b, ffi::TensorView out) {
    TVM_FFI_ICHECK(a.device().device_type == kDLCUDA && out.ndim() == 1 && out.size(0) == a.size(0)) << "tensors do not fit";
    const int64_t n = a.size(0);
    const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
    triad<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(
        static_cast<const float*>(a.data_ptr()), static_cast<const float*>(b.data_ptr()), static_cast<float*>(out.data_ptr()), n);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
