// Asynchronous copies into shared memory by inline PTX and by cuda_pipeline: sizes, groups, zero filling, several stages.
#include <cstdint>
#include <cstdio>
#include <cuda_pipeline.h>

#define CP_ASYNC_CG(dst, src, Bytes) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(Bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(N) asm volatile("cp.async.wait_group %0;\n" ::"n"(N))

__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// As in marlin: copies only where the predicate holds.
__device__ inline void cp_async4_pred(void* smem_ptr, const void* glob_ptr, bool pred = true) {
    const int BYTES = 16;
    uint32_t smem = static_cast<uint32_t>(__cvta_generic_to_shared(smem_ptr));
    asm volatile(
        "{\n"
        "   .reg .pred p;\n"
        "   setp.ne.b32 p, %0, 0;\n"
        "   @p cp.async.cg.shared.global [%1], [%2], %3;\n"
        "}\n" ::"r"((int)pred),
        "r"(smem), "l"(glob_ptr), "n"(BYTES));
}

template <int n>
__device__ inline void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(n));
}

__global__ void sizes(const uint32_t* x, uint32_t* out) {
    __shared__ alignas(16) uint32_t s[32 * 16];
    int t = threadIdx.x;
    for (int i = 0; i < 16; ++i) s[t * 16 + i] = 0xaaaaaaaa;
    uint32_t mine = shared_address(&s[t * 16]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(mine), "l"(x + t) : "memory");
    asm volatile("cp.async.ca.shared::cta.global [%0 + 8], [%1], 8;" ::"r"(mine), "l"(x + 2 * t) : "memory");
    asm volatile("cp.async.cg.shared.global [%0+16], [%1], 16;" ::"r"(mine), "l"(x + 4 * t) : "memory");
    // Fewer bytes than the size: the rest becomes zero.
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(mine + 32), "l"(x + 4 * t), "r"(t % 5 * 4) : "memory");
    asm volatile("cp.async.ca.shared.global.L2::64B [%0], [%1], %2, %3;" ::"r"(mine + 48), "l"(x + 2 * t), "n"(8), "r"(t & 1 ? 8 : 0) : "memory");
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %2, 3; cp.async.ca.shared.global [%0], [%1], 4, p; }" ::"r"(mine + 56), "l"(x + t), "r"(t % 4) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    cp_async4_pred(&s[t * 16], x + 4 * (31 - t), t % 3 == 0);
    CP_ASYNC_COMMIT_GROUP();
    CP_ASYNC_WAIT_GROUP(0);
    __syncthreads();
    for (int i = 0; i < 16; ++i) out[t * 16 + i] = s[(31 - t) * 16 + i];
}

constexpr int stages = 3, tiles = 10;

__global__ void pipelined(const uint32_t* x, uint32_t* out) {
    extern __shared__ uint4 ring[];
    int t = threadIdx.x;
    uint32_t sum = 0;
    for (int stage = 0; stage < stages - 1; ++stage) {
        CP_ASYNC_CG(shared_address(&ring[stage * 32 + t]), x + (stage * 32 + t) * 4, 16);
        CP_ASYNC_COMMIT_GROUP();
    }
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<stages - 2>();
        __syncthreads();
        uint4 v = ring[tile % stages * 32 + (t ^ 1)];
        sum = sum * 7 + v.x + v.y * 3 + v.z * 5 + v.w;
        int next = tile + stages - 1;
        if (next < tiles) CP_ASYNC_CG(shared_address(&ring[next % stages * 32 + t]), x + (next * 32 + t) * 4, 16);
        CP_ASYNC_COMMIT_GROUP();
    }
    out[t] = sum;
}

__global__ void primitives(const uint32_t* x, uint32_t* out) {
    __shared__ alignas(16) uint32_t s[2][32 * 4];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][t * 4], x + t * 4, 16);
    __pipeline_commit();
    __pipeline_memcpy_async(&s[1][t * 4], x + t * 4 + 128, 16, 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    uint32_t sum = s[0][(31 - t) * 4] + s[0][(31 - t) * 4 + 3];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = sum * 3 + s[1][(31 - t) * 4] + s[1][(31 - t) * 4 + 3];
}

static void show(const char* name, const uint32_t* device, int count) {
    static uint32_t h[512];
    cudaMemcpy(h, device, count * 4, cudaMemcpyDeviceToHost);
    uint32_t sum = 0;
    for (int i = 0; i < count; ++i) sum = sum * 31 + h[i];
    printf("%s: %08x\n", name, sum);
    for (int i = 0; i < 32; ++i) printf("%08x%s", h[i], i % 8 == 7 ? "\n" : " ");
}

int main() {
    static uint32_t values[tiles * 128];
    for (int i = 0; i < tiles * 128; ++i) values[i] = (i + 1) * 2654435761u;
    uint32_t *x, *out;
    cudaMalloc(&x, sizeof values), cudaMalloc(&out, 512 * 4);
    cudaMemcpy(x, values, sizeof values, cudaMemcpyHostToDevice);
    sizes<<<1, 32>>>(x, out);
    show("sizes", out, 512);
    pipelined<<<1, 32, stages * 512>>>(x, out);
    show("pipelined", out, 32);
    primitives<<<1, 32>>>(x, out);
    show("primitives", out, 32);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
