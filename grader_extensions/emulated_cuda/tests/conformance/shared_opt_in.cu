// More than 48 KiB of dynamic shared memory has to be asked for, and 227 KiB is the end.
#include <cstdio>
template <int N>
__global__ void touch(int* x) {
    extern __shared__ int big[];
    big[N - 1] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *x = big[N - 1] + 1;
}
template <int N>
void attempt(int* x) {
    int h = 0;
    cudaMemset(x, 0, sizeof h);
    touch<N><<<1, 1, N * sizeof(int)>>>(x);
    cudaError_t error = cudaGetLastError();
    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d: %s %d\n", N, cudaGetErrorName(error), h);
}
int main() {
    int* x;
    cudaMalloc(&x, sizeof(int));
    attempt<12288>(x);
    attempt<20000>(x);
    printf("%s\n", cudaGetErrorName(cudaFuncSetAttribute(touch<20000>, cudaFuncAttributeMaxDynamicSharedMemorySize, 80000)));
    attempt<20000>(x);
    attempt<20001>(x);
    printf("%s\n", cudaGetErrorName(cudaFuncSetAttribute(touch<58112>, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448)));
    attempt<58112>(x);
    printf("%s\n", cudaGetErrorName(cudaFuncSetAttribute(touch<58113>, cudaFuncAttributeMaxDynamicSharedMemorySize, 232452)));
}
