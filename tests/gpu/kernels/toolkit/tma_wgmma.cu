// cases: linear
// expect: ACCEPTED
// Hopper's own way: tensor maps by the driver API, tiles of 128 by 64 by TMA into swizzled shared memory, products by wgmma.
#include <cstdint>

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

static constexpr int TILE = 128, DEPTH = 64, STAGES = 4, THREADS = 256;  // two warpgroups, each with 64 rows of the tile
static constexpr uint32_t STAGE_BYTES = 2 * TILE * DEPTH * sizeof(__half);
static constexpr uint32_t SHARED_BYTES = STAGES * STAGE_BYTES + 1024;  // swizzled tiles begin at a multiple of 1024

__device__ static uint32_t shared_address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

__device__ static void wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}"
        ::"r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

__device__ static void load(const CUtensorMap* map, uint64_t* barrier, void* tile, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(shared_address(tile)), "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row)
                 : "memory");
}

__device__ static uint64_t descriptor(const __half* tile) {
    const uint64_t address = (shared_address(tile) & 0x3FFFF) >> 4;
    return address | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;  // 8 rows of 128 bytes; swizzled over 128 bytes
}

__device__ static void multiply(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63}, %64, %65, adds, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
          "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),
          "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
          "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b));
}

__global__ void __launch_bounds__(THREADS) linear(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                                                  __half* out, int64_t m, int64_t n, int64_t k) {
    extern __shared__ uint8_t raw[];
    __shared__ uint64_t full[STAGES];
    uint8_t* tiles = raw + (1024 - shared_address(raw) % 1024) % 1024;
    const int top = TILE * blockIdx.y, left = TILE * blockIdx.x, count = static_cast<int>((k + DEPTH - 1) / DEPTH);
    auto tile = [&](int step, int operand) {
        return reinterpret_cast<__half*>(tiles + (step % STAGES) * STAGE_BYTES + operand * (STAGE_BYTES / 2));
    };
    auto fetch = [&](int step) {
        uint64_t* barrier = &full[step % STAGES];
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(STAGE_BYTES) : "memory");
        load(&x, barrier, tile(step, 0), step * DEPTH, top);
        load(&w, barrier, tile(step, 1), step * DEPTH, left);
    };
    if (threadIdx.x == 0) {
        for (uint64_t& barrier : full) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int step = 0; step < STAGES && step < count; ++step) fetch(step);
    }
    __syncthreads();
    float sums[64] = {};
    const int group = threadIdx.x / 128;
    for (int step = 0; step < count; ++step) {
        wait(&full[step % STAGES], step / STAGES & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        const uint64_t a = descriptor(tile(step, 0) + group * 64 * DEPTH), b = descriptor(tile(step, 1));
        for (int part = 0; part < DEPTH / 16; ++part) multiply(sums, a + 2 * part, b + 2 * part);  // 32 bytes further, in sixteens
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0 && step + STAGES < count) fetch(step + STAGES);
    }
    const int lane = threadIdx.x % 32, row = top + group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
    for (int at = 0; at < 64; ++at) {
        const int64_t i = row + at / 2 % 2 * 8, j = left + at / 4 * 8 + lane % 4 * 2 + at % 2;
        if (i < m && j < n) out[i * n + j] = __float2half(sums[at]);
    }
}

static CUtensorMap map_of(const __half* matrix, int64_t rows, int64_t columns) {
    CUtensorMap map;
    const cuuint64_t sizes[] = {cuuint64_t(columns), cuuint64_t(rows)}, strides[] = {cuuint64_t(columns) * sizeof(__half)};
    const cuuint32_t box[] = {DEPTH, TILE}, steps[] = {1, 1};
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(matrix), sizes, strides, box, steps,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}

extern "C" void solve(const __half* x, const __half* w, __half* out, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
    cudaFuncSetAttribute(linear, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    const dim3 grid(unsigned((n + TILE - 1) / TILE), unsigned((m + TILE - 1) / TILE));
    linear<<<grid, THREADS, SHARED_BYTES, stream>>>(map_of(x, m, k), map_of(w, n, k), out, m, n, k);
}
