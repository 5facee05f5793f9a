// cases: linear
// expect: ACCEPTED
// needs: cublasLt.h
// A product by cuBLASLt from raw CUDA. It counts columns first, so it computes out.T = w @ x.T.
#include <cstdint>

#include <cublasLt.h>
#include <cuda_fp16.h>

static constexpr size_t WORKSPACE_BYTES = 32 << 20;

struct Product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t w, x, out;
    cublasLtMatmulHeuristicResult_t chosen;

    Product(int64_t m, int64_t n, int64_t k) {
        const cublasOperation_t transposed = CUBLAS_OP_T;
        cublasLtCreate(&handle);
        cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
        cublasLtMatrixLayoutCreate(&w, CUDA_R_16F, k, n, k);
        cublasLtMatrixLayoutCreate(&x, CUDA_R_16F, k, m, k);
        cublasLtMatrixLayoutCreate(&out, CUDA_R_16F, n, m, n);
        cublasLtMatmulPreference_t preference;
        cublasLtMatmulPreferenceCreate(&preference);
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE_BYTES, sizeof WORKSPACE_BYTES);
        int count = 0;
        cublasLtMatmulAlgoGetHeuristic(handle, operation, w, x, out, out, preference, 1, &chosen, &count);
        cublasLtMatmulPreferenceDestroy(preference);
    }
};

extern "C" void solve(const __half* x, const __half* w, __half* out, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    static int64_t sizes[3];
    static Product* product = nullptr;
    static void* workspace = nullptr;
    if (workspace == nullptr) cudaMalloc(&workspace, WORKSPACE_BYTES);
    if (product == nullptr || sizes[0] != m || sizes[1] != n || sizes[2] != k) {
        product = new Product(m, n, k);
        sizes[0] = m, sizes[1] = n, sizes[2] = k;
    }
    const float one = 1.0f, zero = 0.0f;
    cublasLtMatmul(product->handle, product->operation, &one, w, product->w, x, product->x, &zero, out, product->out, out, product->out,
                   &product->chosen.algo, workspace, WORKSPACE_BYTES, stream);
}
