// mma.sync of half and bfloat16: sums of random tiles with float and half accumulators, bit for bit, and how many bits are kept.
#include <cstdint>
#include <cstdio>

constexpr int tiles = 2048;

__device__ uint32_t hash(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

enum Mode { NearOne, Mixed, Cancelling, Subnormal, Special };

__device__ uint32_t half_element(uint32_t seed, int mode) {
    uint32_t h = hash(seed), sign = h >> 31 << 15, fraction = h & 0x3ff, pick = hash(seed + 77);
    if (mode == NearOne) return sign | (12 + pick % 8) << 10 | fraction;
    if (mode == Mixed) return sign | (1 + pick % 30) << 10 | fraction;
    if (mode == Cancelling) return sign | 15 << 10 | pick % 2;
    if (mode == Subnormal) return sign | (pick % 3) << 10 | fraction;
    if (pick % 200 == 0) return sign | 31 << 10;
    if (pick % 200 == 1) return sign | 31 << 10 | fraction;
    return pick % 200 < 20 ? sign : sign | (pick % 31) << 10 | fraction;
}

__device__ uint32_t bfloat_element(uint32_t seed, int mode) {
    uint32_t h = hash(seed), sign = h >> 31 << 15, fraction = h & 0x7f, pick = hash(seed + 77);
    if (mode == NearOne) return sign | (124 + pick % 8) << 7 | fraction;
    if (mode == Mixed) return sign | (107 + pick % 41) << 7 | fraction;
    if (mode == Cancelling) return sign | 127 << 7 | pick % 2;
    if (mode == Subnormal) return sign | (pick % 4 * 40) << 7 | fraction;
    if (pick % 200 == 0) return sign | 255 << 7;
    if (pick % 200 == 1) return sign | 255 << 7 | fraction;
    return pick % 200 < 20 ? sign : sign | (pick % 255) << 7 | fraction;
}

__device__ uint32_t float_element(uint32_t seed, int mode) {
    uint32_t h = hash(seed), sign = h >> 31 << 31, fraction = h & 0x7fffff, pick = hash(seed + 99);
    if (mode == NearOne) return sign | (121 + pick % 16) << 23 | fraction;
    if (mode == Mixed) return sign | (97 + pick % 61) << 23 | fraction;
    if (mode == Cancelling) return pick % 4 == 0 ? 0 : sign | (95 + pick % 34) << 23 | fraction;
    if (mode == Subnormal) return sign | (pick % 3 == 0 ? 70 + pick % 40 : pick % 3 == 1 ? 0 : pick % 20) << 23 | fraction;
    if (pick % 300 == 0) return sign | 255 << 23;
    if (pick % 300 == 1) return sign | 255 << 23 | fraction;
    return pick % 300 < 100 ? sign : sign | (pick % 255) << 23 | fraction;
}

__device__ uint32_t pair(uint32_t seed, int mode, bool bfloat) {
    return bfloat ? bfloat_element(seed, mode) | bfloat_element(seed + 1, mode) << 16 : half_element(seed, mode) | half_element(seed + 1, mode) << 16;
}

struct Tile {
    uint32_t a[4], b[2], c[4], d[4];
};

enum Form { HalfK16, HalfK16ToHalf, HalfK8, HalfK8ToHalf, BfloatK16, BfloatK8, forms };

__device__ void multiply(Tile& t, int form) {
    for (uint32_t& d : t.d) d = 0;
    if (form == HalfK16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                     : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                     : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == HalfK16ToHalf)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"
                     : "=r"(t.d[0]), "=r"(t.d[1])
                     : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]));
    if (form == HalfK8)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                     : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                     : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == HalfK8ToHalf)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%5,%6};"
                     : "=r"(t.d[0]), "=r"(t.d[1])
                     : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]));
    if (form == BfloatK16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                     : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                     : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == BfloatK8)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                     : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                     : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
}

__global__ void random_tiles(int form, int mode, unsigned long long* sum, uint32_t* first) {
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        uint32_t seed = hash(form * 5 + mode) + (tile * 32 + threadIdx.x) * 64;
        bool bfloat = form >= BfloatK16, to_half = form == HalfK16ToHalf || form == HalfK8ToHalf;
        Tile t;
        for (int i = 0; i < 4; ++i) t.a[i] = pair(seed + 2 * i, mode, bfloat);
        for (int i = 0; i < 2; ++i) t.b[i] = pair(seed + 16 + 2 * i, mode, bfloat);
        for (int i = 0; i < 4; ++i) t.c[i] = to_half ? pair(seed + 32 + 2 * i, mode, false) : float_element(seed + 32 + i, mode);
        multiply(t, form);
        unsigned long long mine = 0;
        for (int i = 0; i < 4; ++i) mine += (unsigned long long)hash(t.d[i] + 0x9e3779b9u * i) << i;
        atomicAdd(sum, mine * (2 * (tile * 32 + threadIdx.x) + 1));
        if (tile == 7 && threadIdx.x == 13)
            for (int i = 0; i < 4; ++i) first[i] = t.d[i];
    }
}

// One large value and one small one, with opposite signs: where each is, and how far apart they are.
__global__ void kept_bits(int form, int where, uint32_t* out) {
    for (int distance = 20; distance < 28; ++distance) {
        bool bfloat = form >= BfloatK16;
        uint32_t one = bfloat ? 127 << 7 : 15 << 10, small = bfloat ? (127u - distance) << 7 : (15u - distance / 2) << 10;
        uint32_t other = bfloat ? one : (15u - (distance - distance / 2)) << 10, minus = 1u << 15;
        Tile t{};
        if (threadIdx.x == 0) {
            bool half_k = form == HalfK16 || form == BfloatK16;
            if (where == 0) t.a[0] = one | (small | minus) << 16, t.b[0] = one | other << 16;
            if (where == 1) t.a[0] = one, t.b[0] = one, t.a[half_k ? 2 : 0] |= (small | minus) << 16, t.b[half_k ? 1 : 0] |= other << 16;
            if (where == 2) t.a[0] = small | minus, t.b[0] = other, t.c[0] = 0x3f800000u;
            if (where == 3) t.a[0] = one | minus, t.b[0] = one, t.c[0] = (127u - distance) << 23;
        }
        multiply(t, form);
        if (threadIdx.x == 0) out[distance - 20] = t.d[0];
    }
}

int main() {
    const char* names[] = {"half k16", "half k16 to half", "half k8", "half k8 to half", "bfloat k16", "bfloat k8"};
    const char* modes[] = {"near one", "mixed", "cancelling", "subnormal", "special"};
    unsigned long long* sum;
    uint32_t* out;
    cudaMallocManaged(&sum, sizeof *sum);
    cudaMallocManaged(&out, 8 * sizeof *out);
    for (int form = 0; form < forms; ++form)
        for (int mode = 0; mode < 5; ++mode) {
            *sum = 0;
            random_tiles<<<64, 32>>>(form, mode, sum, out);
            cudaDeviceSynchronize();
            printf("%s, %s: %016llx, %08x %08x %08x %08x\n", names[form], modes[mode], *sum, out[0], out[1], out[2], out[3]);
        }
    for (int form : {HalfK16, HalfK8, BfloatK16, BfloatK8})
        for (int where = 0; where < 4; ++where) {
            kept_bits<<<1, 32>>>(form, where, out);
            cudaDeviceSynchronize();
            printf("%s, kept %d:", names[form], where);
            for (int i = 0; i < 8; ++i) printf(" %08x", out[i]);
            printf("\n");
        }
    return cudaGetLastError();
}
