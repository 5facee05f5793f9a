// Memory accesses whose counts are known.  A comment says of its line, for each access: requests, transactions, the least of them, active lanes
// and bytes.
#include <cstdlib>
__global__ void coalesced(const float* in, float* out) {
    float x = in[threadIdx.x];  // global_load 1 4 4 32 128
    out[threadIdx.x] = x;       // global_store 1 4 4 32 128
}
__global__ void stride_2(const float* in, float* out) {
    out[2 * threadIdx.x] = in[2 * threadIdx.x];  // global_load 1 8 4 32 128, global_store 1 8 4 32 128
}
__global__ void strided(const float* in, float* out) {
    out[32 * threadIdx.x] = in[32 * threadIdx.x];  // global_load 1 32 4 32 128, global_store 1 32 4 32 128
}
__global__ void shifted(const float* in, float* out) {
    out[threadIdx.x] = in[threadIdx.x + 1];  // global_load 1 5 4 32 128, global_store 1 4 4 32 128
}
__global__ void same_address(const float* in, float* out) {
    out[threadIdx.x] = in[7];  // global_load 1 1 1 32 128, global_store 1 4 4 32 128
}
__global__ void vectors(const float4* in, float4* out) {
    float4 x = in[threadIdx.x];  // global_load 1 16 16 32 512
    out[threadIdx.x] = x;        // global_store 1 16 16 32 512
}
__global__ void half_warp(const float* in, float* out) {
    if (threadIdx.x < 16) out[threadIdx.x] = in[threadIdx.x];  // global_load 1 2 2 16 64, global_store 1 2 2 16 64
    else out[threadIdx.x] = 1;                                 // global_store 1 2 2 16 64
}
__global__ void bytes(const unsigned char* in, unsigned char* out) {
    out[threadIdx.x] = in[threadIdx.x];  // global_load 1 1 1 32 32, global_store 1 1 1 32 32
}
__global__ void columns(float* out) {
    __shared__ float tile[32][32], padded[32][33];
    tile[threadIdx.x][0] = 1;    // shared_store 1 32 1 32 128
    padded[threadIdx.x][0] = 2;  // shared_store 1 1 1 32 128
    __syncthreads();
    float x = tile[threadIdx.x][0];    // shared_load 1 32 1 32 128
    float y = padded[threadIdx.x][0];  // shared_load 1 1 1 32 128
    out[threadIdx.x] = x + y;          // global_store 1 4 4 32 128
}
__global__ void atomics(float* out) {
    __shared__ int count, counts[32];
    if (threadIdx.x == 0) count = 0;    // shared_store 1 1 1 1 4
    counts[threadIdx.x] = 0;            // shared_store 1 1 1 32 128
    __syncthreads();
    atomicAdd(&count, 1);               // shared_atomic 1 32 1 32 128
    atomicAdd(&counts[threadIdx.x], 1); // shared_atomic 1 1 1 32 128
    atomicAdd(out, 1.0f);               // global_atomic 1 1 1 32 128
    atomicMax(&counts[threadIdx.x], 2); // shared_atomic 1 1 1 32 128
}
__global__ void loops(const float* in, float* out) {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += in[32 * i + threadIdx.x];         // global_load 4 16 16 128 512
    for (unsigned i = 0; i <= threadIdx.x % 4; ++i) sum += in[64 * i];   // global_load 4 4 4 80 320
    for (int i = 0; i < 3; ++i) {
        if (threadIdx.x < 8) sum += in[8 * i + threadIdx.x];             // global_load 3 3 3 24 96
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i) sum += __shfl_down_sync(~0u, in[threadIdx.x], 1);  // global_load 2 8 8 64 256
    out[threadIdx.x] = sum;                                              // global_store 1 4 4 32 128
}
__global__ void many_blocks(float* out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;  // global_store 10 40 40 320 1280
}
// Memory that the sanitizer does not know counts, as a tensor of an extension does; what a thread, the library or the device has does not.
__constant__ float factors[32];
__device__ float table[32];
struct Argument {
    float values[32];
};
__global__ void unnamed(float* out, Argument argument) {
    float own[32];
    for (int i = 0; i < 32; ++i) own[(i + threadIdx.x) % 32] = argument.values[i];
    float sum = own[threadIdx.y + blockDim.x / 2] + factors[threadIdx.x] + table[threadIdx.x] + __syncthreads_count(1);
    out[threadIdx.x] = sum;  // global_store 1 4 4 32 128
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 8192 * 4), cudaMalloc(&out, 8320 * 4);
    cudaMemset(in, 0, 8192 * 4), cudaMemset(out, 0, 8320 * 4);
    coalesced<<<1, 32>>>(in, out);
    stride_2<<<1, 32>>>(in, out);
    strided<<<1, 32>>>(in, out);
    shifted<<<1, 32>>>(in, out);
    same_address<<<1, 32>>>(in, out);
    vectors<<<1, 32>>>(reinterpret_cast<float4*>(in), reinterpret_cast<float4*>(out));
    half_warp<<<1, 32>>>(in, out);
    bytes<<<1, 32>>>(reinterpret_cast<unsigned char*>(in), reinterpret_cast<unsigned char*>(out));
    columns<<<1, 32>>>(out);
    atomics<<<1, 32>>>(out);
    loops<<<1, 32>>>(in, out);
    many_blocks<<<130, 64>>>(out);  // blocks 0, 34, 68, 89 and 123 are counted
    auto* memory = static_cast<float*>(aligned_alloc(128, 1024));
    unnamed<<<1, 32>>>(memory, Argument{});
    return cudaDeviceSynchronize();
}
