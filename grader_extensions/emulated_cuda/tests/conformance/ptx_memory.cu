// Inline PTX on memory: loads and stores with hints and vectors, the 32-bit addresses of shared memory, atomics.
#include <cstdint>
#include <cstdio>

#define PUT(value) out[n++ * 32 + lane] = (value)
#define LOAD_FLOAT4(to, address)                                        \
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];\n" \
                 : "=f"((to).x), "=f"((to).y), "=f"((to).z), "=f"((to).w)        \
                 : "l"(address))

static constexpr int most = 80;

__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ int global_memory(uint32_t* out, int n, int lane, uint32_t* data) {
    uint32_t a, b, c, d;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(data + lane));
    PUT(a);
    asm volatile("ld.global.nc.u32 %0, [%1+8];" : "=r"(a) : "l"(data + lane));
    PUT(a);
    asm volatile("ld.global.ca.b32 %0, [%1 + -4];" : "=r"(a) : "l"(data + lane + 1));
    PUT(a);
    asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(data + 2 * lane));
    PUT(a * 3 + b);
    asm volatile("ld.global.cs.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(data + 4 * lane) : "memory");
    PUT(a + b * 3 + c * 5 + d * 7);
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.s32 {%0,_,%1,%2}, [%3];" : "=r"(a), "=r"(b), "=r"(c) : "l"(data + 4 * lane));
    PUT(a + b * 3 + c * 5);
    float4 v;
    LOAD_FLOAT4(v, data + 4 * lane);
    PUT(__float_as_uint(v.x) ^ __float_as_uint(v.w));
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(a) : "l"((const char*)data + lane * 5));
    PUT(a);
    asm volatile("ld.global.s8 %0, [%1];" : "=r"(a) : "l"((const char*)data + lane * 5));
    PUT(a);
    asm volatile("ld.global.s16 %0, [%1];" : "=r"(a) : "l"((const char*)data + lane * 6));
    PUT(a);
    uint16_t h;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(h) : "l"((const char*)data + lane * 6));
    PUT(h);
    uint64_t wide;
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(wide) : "l"(data + 2 * lane));
    PUT(static_cast<uint32_t>(wide >> 12));
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(a) : "l"(data + lane));
    asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(b) : "l"(data + lane + 1));
    PUT(a ^ b);
    asm volatile("ld.b32 %0, [%1];" : "=r"(a) : "l"(data + lane));
    PUT(a);
    asm volatile("ld.global.L2::cache_hint.v2.b64 {%0, %1}, [%2], %3;" : "=l"(wide), "=l"(*(uint64_t*)&v) : "l"(data + 4 * lane), "l"(0x12F0000000000000ull));
    PUT(static_cast<uint32_t>(wide >> 32));
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.u32 %0, 77; @p ld.global.u32 %0, [%1]; }" : "=r"(a) : "l"(data + lane), "r"(lane & 2));
    PUT(a);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(data));
    return n;
}

__device__ int stores(uint32_t* out, int n, int lane, uint32_t* scratch) {
    uint32_t* mine = scratch + lane * 8;
    asm volatile("st.global.u32 [%0], %1;" ::"l"(mine), "r"(lane + 1000) : "memory");
    asm volatile("st.global.cs.v2.b32 [%0+8], {%1, %2};" ::"l"(mine), "r"(lane * 2), "r"(lane * 3) : "memory");
    asm volatile("st.global.wt.v4.f32 [%0+16], {%1, %2, %3, %4};" ::"l"(mine), "f"(1.5f * lane), "f"(2.5f), "f"(-1.0f), "f"(0.25f) : "memory");
    asm volatile("st.global.b8 [%0+4], %1;" ::"l"(mine), "r"(0x1234 + lane) : "memory");
    asm volatile("st.global.u16 [%0+6], %1;" ::"l"(mine), "h"(static_cast<uint16_t>(lane * 77)) : "memory");
    asm volatile("st.release.gpu.global.u8 [%0+5], %1;" ::"l"(mine), "r"(lane) : "memory");
    for (int i = 0; i < 8; ++i) PUT(mine[i]);
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(mine), "l"(0x123456789abcdef0ull * lane), "l"(5ull) : "memory");
    PUT(mine[0] ^ mine[1] ^ mine[2] ^ mine[3]);
    return n;
}

__device__ int shared_memory(uint32_t* out, int n, int lane) {
    __shared__ uint32_t words[160];
    __shared__ alignas(16) float4 quads[32];
    extern __shared__ uint32_t dynamic[];
    uint32_t a, b, c, d, base = shared_address(words);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + 4 * lane), "r"(lane * 17) : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %2, %2};" ::"r"(shared_address(&quads[lane])), "r"(lane), "r"(lane + 1) : "memory");
    asm volatile("st.shared.b32 [%0+128], %1;" ::"r"(shared_address(dynamic) + 4 * lane), "r"(lane * 19) : "memory");
    __syncthreads();
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(base + 4 * (31 - lane)));
    PUT(a);
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(&quads[lane ^ 5])));
    PUT(a + b * 100 + c * 10000 + d * 1000000);
    PUT(dynamic[32 + (lane + 3) % 32]);
    PUT(shared_address(&words[7]) - base);
    PUT((shared_address(dynamic) & 15) + (shared_address(quads) & 15));
    uint64_t generic;
    asm volatile("{ .reg .u64 full; cvt.u64.u32 full, %1; cvta.shared.u64 %0, full; }" : "=l"(generic) : "r"(base));
    PUT(reinterpret_cast<uint32_t*>(generic) == words);
    PUT(__cvta_shared_to_generic(base + 8) == &words[2]);
    uint32_t small;
    asm volatile("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(small) : "l"(&words[3]));
    PUT(small - base);
    asm volatile("{ .reg .pred p, q, r; isspacep.shared p, %1; isspacep.global q, %1; isspacep.shared r, %2; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; @r add.u32 %0, %0, 4; }"
                 : "=r"(a)
                 : "l"(words), "l"(out));
    PUT(a);
    PUT((__isShared(words) != 0) + 2 * (__isShared(out) != 0) + 4 * (__isGlobal(out) != 0) + 8 * (__isGlobal(words) != 0) +
        32 * (__isLocal(&a) != 0) + 64 * (__isShared(&a) != 0));
    asm volatile("ld.u32 %0, [%1+4];" : "=r"(a) : "l"(&words[lane]));
    PUT(lane < 31 ? a : 0);
    __syncthreads();
    asm volatile("st.shared.volatile.u32 [%0], %1;" ::"r"(base), "r"(5) : "memory");
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(a) : "r"(base));
    PUT(a);
    // Atomics in shared memory.
    __syncthreads();
    if (lane < 4) words[lane] = lane == 2 ? 0xffffffff : 0;
    __syncthreads();
    asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(base), "r"(lane) : "memory");
    asm volatile("atom.shared.or.b32 %0, [%1], %2;" : "=r"(a) : "r"(base + 4), "r"(1 << lane) : "memory");
    asm volatile("atom.shared.min.u32 %0, [%1], %2;" : "=r"(a) : "r"(base + 8), "r"(1000 - lane) : "memory");
    asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(a) : "r"(base + 12), "r"(0), "r"(lane + 1) : "memory");
    __syncthreads();
    PUT(words[0]);
    PUT(words[1]);
    PUT(words[2]);
    PUT(words[3] >= 1 && words[3] <= 32);
    return n;
}

__device__ int global_atomics(uint32_t* out, int n, int lane, uint32_t* counters) {
    uint32_t a;
    float* floats = reinterpret_cast<float*>(counters + 8);
    asm volatile("red.global.add.s32 [%0], %1;" ::"l"(counters), "r"(lane) : "memory");
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(floats), "f"(0.5f) : "memory");
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(floats + 1), "r"(0x3c004000) : "memory");
    asm volatile("red.global.v2.f32.add [%0], {%1, %2};" ::"l"(floats + 2), "f"(1.0f), "f"(2.0f) : "memory");
    asm volatile("red.gpu.global.max.u32 [%0], %1;" ::"l"(counters + 1), "r"(lane * 7) : "memory");
    asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(a) : "l"(counters + 2), "r"(2) : "memory");
    PUT(a % 2);
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(a) : "l"(counters + 3), "r"(3) : "memory");
    PUT(a % 3);
    asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(a) : "l"(counters + 4), "r"(9) : "memory");
    asm volatile("atom.global.inc.u32 %0, [%1], %2;" : "=r"(a) : "l"(counters + 5), "r"(6) : "memory");
    PUT(a <= 6);
    asm volatile("atom.global.acq_rel.gpu.cas.b32 %0, [%1], %2, %3;" : "=r"(a) : "l"(counters + 6), "r"(0), "r"(5) : "memory");
    PUT(a == 0 || a == 5);
    __syncthreads();
    for (int i = 0; i < 7; ++i) PUT(counters[i]);
    for (int i = 0; i < 4; ++i) PUT(counters[8 + i]);
    return n;
}

__global__ void run(uint32_t* out, int* counts, uint32_t* data, uint32_t* scratch, uint32_t* counters) {
    int lane = threadIdx.x, n = 0;
    counts[0] = n = global_memory(out, n, lane, data);
    counts[1] = n = stores(out, n, lane, scratch);
    counts[2] = n = shared_memory(out, n, lane);
    counts[3] = n = global_atomics(out, n, lane, counters);
}

int main() {
    static uint32_t h[most * 32], values[160];
    int counts[4], *device_counts;
    uint32_t *out, *data, *scratch, *counters;
    for (int i = 0; i < 160; ++i) values[i] = (i + 1) * 2654435761u;
    cudaMalloc(&out, sizeof h), cudaMalloc(&device_counts, sizeof counts), cudaMalloc(&data, sizeof values);
    cudaMalloc(&scratch, 32 * 32), cudaMalloc(&counters, 64);
    cudaMemcpy(data, values, sizeof values, cudaMemcpyHostToDevice);
    cudaMemset(counters, 0, 64), cudaMemset(scratch, 0, 32 * 32);
    run<<<1, 32, 256>>>(out, device_counts, data, scratch, counters);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(counts, device_counts, sizeof counts, cudaMemcpyDeviceToHost);
    const char* names[] = {"global loads", "stores", "shared memory", "global atomics"};
    for (int group = 0, slot = 0; group < 4; ++group) {
        printf("%s: %d", names[group], counts[group]);
        for (int start = slot; slot < counts[group]; ++slot) {
            uint32_t sum = 0;
            for (int lane = 0; lane < 32; ++lane) sum = sum * 31 + h[slot * 32 + lane];
            printf("%s%08x/%08x", (slot - start) % 6 ? " " : "\n  ", h[slot * 32 + 5], sum);
        }
        printf("\n");
    }
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
