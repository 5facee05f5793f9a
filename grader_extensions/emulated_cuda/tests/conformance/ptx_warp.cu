// Inline PTX that a warp or a block does together: shuffles, votes, matches, reductions, barriers, special registers.
#include <cstdint>
#include <cstdio>

#define PUT(value) out[n++ * 128 + threadIdx.x] = (value)

static constexpr int most = 80;

__device__ int shuffles(uint32_t* out, int n, int lane) {
    uint32_t r, value = lane * lane + 3;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(value), "r"(lane * 5));
    PUT(r);
    asm volatile("shfl.sync.up.b32 %0, %1, 3, 0x0, 0xffffffff;" : "=r"(r) : "r"(value));
    PUT(r);
    asm volatile("shfl.sync.down.b32 %0, %1, 5, 0x1f, -1;" : "=r"(r) : "r"(value));
    PUT(r);
    asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 31, 0xffffffff;" : "=r"(r) : "r"(value));
    PUT(r);
    // Width 8: the segment mask is in bits 8 to 12.
    asm volatile("shfl.sync.down.b32 %0, %1, 2, %2, 0xffffffff;" : "=r"(r) : "r"(value), "r"((32 - 8) << 8 | 31));
    PUT(r);
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, 4, 0, 0xffffffff; @p add.u32 %0, %0, %1; }" : "=r"(r) : "r"(value));
    PUT(r);
    float f = lane * 0.5f, g;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 0x3, 0x1f, 0xffffffff;" : "=f"(g) : "f"(f));
    PUT(__float_as_uint(g));
    uint32_t part = lane < 16 ? 0xffff : 0xffff0000;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(r) : "r"(value), "r"(lane & 16 | 3), "r"(part));
    PUT(r);
    // CUB's prefix sum: adds only where the source lane exists.
    uint32_t sum = value;
    for (int offset = 1; offset < 32; offset *= 2)
        asm volatile("{\n  .reg .u32 r0;\n  .reg .pred p;\n  shfl.sync.up.b32 r0|p, %1, %2, %3, %4;\n  @p add.u32 r0, r0, %1;\n  mov.u32 %0, r0;\n}"
                     : "=r"(sum)
                     : "r"(sum), "r"(offset), "r"(0), "r"(0xffffffff));
    PUT(sum);
    return n;
}

__device__ int votes(uint32_t* out, int n, int lane) {
    uint32_t r;
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 13; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r) : "r"(lane * 7 % 32));
    PUT(r);
    asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, 32; vote.sync.all.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(lane));
    PUT(r);
    asm volatile("{ .reg .pred p, q; setp.eq.u32 p, %1, 40; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(lane));
    PUT(r);
    asm volatile("{ .reg .pred p, q; setp.eq.u32 p, %1, 4; vote.sync.uni.pred q, !p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(lane));
    PUT(r);
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(lane % 5));
    PUT(r);
    asm volatile("match.any.sync.b64 %0, %1, 0xffffffff;" : "=r"(r) : "l"((uint64_t)(lane / 7) << 40));
    PUT(r);
    uint32_t flag;
    asm volatile("{ .reg .pred p; match.all.sync.b32 %0|p, %2, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(r), "=r"(flag) : "r"(lane / 32));
    PUT(r + flag);
    asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(lane - 20));
    PUT(r);
    asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(lane * 3 - 20));
    PUT(r);
    asm volatile("redux.sync.max.u32 %0, %1, %2;" : "=r"(r) : "r"(lane * 3 - 20), "r"(0xffffffff));
    PUT(r);
    asm volatile("redux.sync.xor.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(lane * lane * 77));
    PUT(r);
    asm volatile("activemask.b32 %0;" : "=r"(r));
    PUT(r);
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(r));
    PUT(r);
    asm volatile("{\n .reg .b32 %%rx;\n .reg .pred %%px;\n elect.sync %%rx|%%px, %2;\n@%%px mov.s32 %1, 1;\n mov.s32 %0, %%rx;\n}\n" : "=r"(r), "+r"(flag) : "r"(0xffffffff));
    PUT(r + flag * 100);
    return n;
}

__device__ int registers(uint32_t* out, int n) {
    uint32_t r, s;
    asm("mov.u32 %0, %%laneid;" : "=r"(r));
    PUT(r);
    asm volatile("mov.u32 %0, %tid.x;\n\tmov.u32 %1, %%ntid.x;" : "=r"(r), "=r"(s));
    PUT(r + 1000 * s);
    asm("mov.u32 %0, %%ctaid.x; mov.u32 %1, %%nctaid.x;" : "=r"(r), "=r"(s));
    PUT(r + 1000 * s);
    asm("mov.u32 %0, %%tid.y; mov.u32 %1, %%ntid.z;" : "=r"(r), "=r"(s));
    PUT(r + 1000 * s);
    asm("mov.u32 %0, %%lanemask_lt; mov.u32 %1, %%lanemask_ge;" : "=r"(r), "=r"(s));
    PUT(r ^ s * 3);
    asm("mov.u32 %0, %%lanemask_eq; mov.u32 %1, %%lanemask_le;" : "=r"(r), "=r"(s));
    PUT(r ^ s * 3);
    asm("mov.u32 %0, %lanemask_gt;" : "=r"(r));
    PUT(r);
    asm volatile("{ .reg .u32 t; mov.u32 t, %warpid; and.b32 %0, t, 0; }" : "=r"(r));
    PUT(r);
    uint64_t before, after;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
    asm volatile("mov.u64 %0, %clock64;" : "=l"(after));
    PUT(before != 0 && after != 0);
    asm volatile("mov.u32 %0, %%smid; mov.u32 %1, %%nsmid;" : "=r"(r), "=r"(s));
    PUT(r < s);
    asm("mov.u32 %0, WARP_SZ;" : "=r"(r));
    PUT(r);
    return n;
}

__device__ int barriers(uint32_t* out, int n) {
    __shared__ uint32_t box[128], order[4];
    uint32_t t = threadIdx.x, r;
    box[t] = t * 3;
    asm volatile("bar.sync 0;" ::: "memory");
    PUT(box[127 - t]);
    asm volatile("barrier.sync 0;" ::: "memory");
    box[t] = t * 5;
    asm volatile("bar.sync 1, 128;" ::: "memory");
    PUT(box[127 - t]);
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(2), "r"(128) : "memory");
    // Producers arrive, consumers wait: warps 0 and 1 write, warps 2 and 3 read.
    if (t < 64) {
        box[t] = t + 500;
        asm volatile("bar.arrive 3, 128;" ::: "memory");
        r = 0;
    } else {
        asm volatile("bar.sync 3, 128;" ::: "memory");
        r = box[t - 64] + box[127 - t];
    }
    PUT(r);
    __syncthreads();
    // Two halves of the block, each with a barrier of its own.
    uint32_t half = t / 64;
    for (int step = 0; step < 3; ++step) {
        asm volatile("bar.sync %0, %1;" ::"r"(half + 4), "r"(64) : "memory");
        box[t] = t * (step + 2);
        asm volatile("bar.sync %0, 64;" ::"r"(half + 4) : "memory");
        r += box[half * 64 + 63 - t % 64];
    }
    PUT(r);
    asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, 40; bar.red.popc.u32 %0, 0, p; }" : "=r"(r) : "r"(t) : "memory");
    PUT(r);
    asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, 128; bar.red.and.pred q, 0, p; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(t) : "memory");
    PUT(r);
    asm volatile("{ .reg .pred p, q; setp.eq.u32 p, %1, 77; barrier.red.or.pred q, 6, 128, p; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(t) : "memory");
    PUT(r);
    if (t == 0) order[0] = 0;
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    asm volatile("membar.gl;" ::: "memory");
    asm volatile("membar.cta;\n\tmembar.sys;\n\tfence.acq_rel.gpu;\n\tfence.sc.cta;\n\tfence.proxy.async;" ::: "memory");
    asm volatile("nanosleep.u32 20;");
    __syncthreads();
    asm volatile("{ .reg .pred p; .reg .u32 lane; mov.u32 lane, %%laneid; setp.eq.u32 p, lane, 0; @p red.shared.add.u32 [%0], 1; }" ::"r"((uint32_t)__cvta_generic_to_shared(order)) : "memory");
    __syncthreads();
    PUT(order[0]);
    return n;
}

__global__ void run(uint32_t* out, int* counts) {
    int n = 0, lane = threadIdx.x % 32;
    counts[0] = n = shuffles(out, n, lane);
    counts[1] = n = votes(out, n, lane);
    counts[2] = n = registers(out, n);
    counts[3] = n = barriers(out, n);
}

__global__ void leave() {
    if (threadIdx.x > 2) asm volatile("exit;");
    printf("thread %d stays\n", threadIdx.x);
}

int main() {
    static uint32_t h[most * 128];
    int counts[4], *device_counts;
    uint32_t* out;
    cudaMalloc(&out, sizeof h), cudaMalloc(&device_counts, sizeof counts);
    run<<<1, 128>>>(out, device_counts);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(counts, device_counts, sizeof counts, cudaMemcpyDeviceToHost);
    const char* names[] = {"shuffles", "votes", "registers", "barriers"};
    for (int group = 0, slot = 0; group < 4; ++group) {
        printf("%s: %d", names[group], counts[group]);
        for (int start = slot; slot < counts[group]; ++slot) {
            uint32_t sum = 0;
            for (int t = 0; t < 128; ++t) sum = sum * 31 + h[slot * 128 + t];
            printf("%s%08x/%08x", (slot - start) % 6 ? " " : "\n  ", h[slot * 128 + 69], sum);
        }
        printf("\n");
    }
    leave<<<1, 32>>>();
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
