// Accesses of 8 and 16 bytes to shared memory, and asynchronous copies, whose passes are known.  Comments are as in access_counts.cu.
#include <cuda_pipeline.h>
__global__ void kernel(float* out) {
    __shared__ float4 quads[64];
    __shared__ double pairs[32], apart[64];
    const unsigned t = threadIdx.x;
    quads[t] = float4{1, 2, 3, 4};       // shared_store 1 4 4 32 512
    quads[t + 32] = float4{1, 2, 3, 4};  // shared_store 1 4 4 32 512
    pairs[t] = 2;                        // shared_store 1 2 2 32 256
    apart[2 * t] = 3;                    // shared_store 1 4 2 32 256
    __syncthreads();
    float4 own = quads[t];                                      // shared_load 1 4 4 32 512
    float4 same = quads[5];                                     // shared_load 1 2 2 32 512
    float4 paired = quads[t / 8 * 2 + t % 8 / 2 % 2];           // shared_load 1 2 2 32 512
    float4 every_other = quads[t / 8 * 2 + t % 2];              // shared_load 1 2 2 32 512
    float4 in_rows = quads[t / 16 * 4 + t % 16 / 8 + t % 8 / 4 * 8];  // shared_load 1 4 2 32 512
    float4 mixed = quads[t < 16 ? t / 8 * 2 + t % 8 / 2 % 2 : t / 8 * 2 + t % 2];  // shared_load 1 4 4 32 512
    float4 few = own;
    if (t == 15 || t == 16) few = quads[4];                     // shared_load 1 2 2 2 32
    double single = pairs[t];                                   // shared_load 1 2 2 32 256
    double two = pairs[t / 2];                                  // shared_load 1 1 1 32 256
    double wide = apart[2 * t];                                 // shared_load 1 4 2 32 256
    out[t] = own.x + same.y + paired.z + every_other.w + in_rows.x + mixed.y + few.z + float(single + two + wide);  // global_store 1 4 4 32 128
}
__global__ void copies(const float* in, float* out) {
    __shared__ __align__(16) float tile[128];
    __pipeline_memcpy_async(&tile[4 * threadIdx.x], in + 4 * threadIdx.x, 16);  // global_load 1 16 16 32 512, shared_store 1 4 4 32 512
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[4 * threadIdx.x];  // shared_load 1 4 1 32 128, global_store 1 4 4 32 128
}
struct Pair {
    float4 a, b;
};
__global__ void structs(const Pair* in, Pair* out) {
    out[threadIdx.x] = in[threadIdx.x];  // global_load 2 64 32 64 1024, global_store 2 64 32 64 1024
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 1024), cudaMalloc(&out, 1024);
    cudaMemset(in, 0, 1024);
    kernel<<<1, 32>>>(out);
    copies<<<1, 32>>>(in, out);
    structs<<<1, 32>>>(reinterpret_cast<Pair*>(in), reinterpret_cast<Pair*>(out));
    return cudaDeviceSynchronize();
}
