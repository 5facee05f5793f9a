// mma.sync of tf32, 8-, 4- and 1-bit integers, fp8 and double: random tiles bit for bit, and how many bits fp8 products keep.
#include <cstdint>
#include <cstdio>
#include <cstring>

constexpr int tiles = 2048;

__device__ uint32_t hash(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

struct Tile {
    uint32_t a[4], b[2], c[4], d[4];
};

__device__ void multiply(Tile& t, int form) {
    for (uint32_t& d : t.d) d = 0;
    if (form == 0) asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 1) asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 2) asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 3) asm volatile("mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 4) asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 5) asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 6) asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 7) asm volatile("mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 8) asm volatile("mma.sync.aligned.m16n8k64.row.col.s32.u4.u4.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 9) asm volatile("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 10) asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 11) asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 12) asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 13) asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 14) asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.a[2]), "r"(t.a[3]), "r"(t.b[0]), "r"(t.b[1]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 15) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 16) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e5m2.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]), "=r"(t.d[2]), "=r"(t.d[3])
                                 : "r"(t.a[0]), "r"(t.a[1]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]), "r"(t.c[2]), "r"(t.c[3]));
    if (form == 17) asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]) : "r"(t.a[0]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]));
    if (form == 18) asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
                                 : "=r"(t.d[0]), "=r"(t.d[1]) : "r"(t.a[0]), "r"(t.b[0]), "r"(t.c[0]), "r"(t.c[1]));
}

// Bytes of fp8 whose exponents differ little in the even tiles and are arbitrary in the odd ones; NaN only in a few.
__device__ uint32_t fp8_bytes(uint32_t seed, int tile) {
    uint32_t h = hash(seed);
    if (tile % 16 == 15) return h;
    return tile % 2 ? h & ~0x40404040u : (h & ~0x78787878u) | 0x38383838u;
}

__device__ uint32_t element(int form, int tile, uint32_t seed) {
    uint32_t h = hash(seed);
    if (form >= 11 && form <= 16) return fp8_bytes(seed, tile);
    if (form >= 2) return h;
    if (tile % 16 == 15) return h;
    uint32_t exponent = tile % 2 ? 100 + hash(seed + 5) % 56 : 124 + hash(seed + 5) % 8;
    return (h & 0x807fffffu) | exponent << 23;
}

__device__ uint32_t addend(int form, int tile, uint32_t seed) {
    uint32_t h = hash(seed);
    if ((form >= 2 && form <= 10) || form >= 17) return tile % 4 ? hash(h) % 65536 : tile % 8 ? 0x7ffff800u + h % 2048 : 0x80000000u + h % 2048;
    uint32_t exponent = tile % 2 ? 97 + hash(seed + 5) % 61 : 121 + hash(seed + 5) % 16;
    return (h & 0x807fffffu) | exponent << 23;
}

__global__ void random_tiles(int form, unsigned long long* sum, uint32_t* first) {
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        uint32_t seed = hash(form + 100) + (tile * 32 + threadIdx.x) * 64;
        Tile t;
        for (int i = 0; i < 4; ++i) t.a[i] = element(form, tile, seed + i);
        for (int i = 0; i < 2; ++i) t.b[i] = element(form, tile, seed + 16 + i);
        for (int i = 0; i < 4; ++i) t.c[i] = addend(form, tile, seed + 32 + i);
        multiply(t, form);
        unsigned long long mine = 0;
        for (int i = 0; i < 4; ++i) mine += (unsigned long long)hash(t.d[i] + 0x9e3779b9u * i) << i;
        atomicAdd(sum, mine * (2 * (tile * 32 + threadIdx.x) + 1));
        if (tile == 6 && threadIdx.x == 13)
            for (int i = 0; i < 4; ++i) first[i] = t.d[i];
    }
}

__device__ uint32_t power(bool e5m2, int exponent) { return e5m2 ? (15 + exponent) << 2 : (7 + exponent) << 3; }

// 2^12 - 2^(12-distance): both products in one half of k, in both halves, or one of them the addend.
__global__ void kept_bits(int form, int where, uint32_t* out) {
    bool a5 = form == 12 || form == 14, b5 = form == 12 || form == 13;
    for (int distance = 8; distance < 24; ++distance) {
        int low = 12 - distance, half_low = low < 0 ? -(-low / 2) : low / 2;
        uint32_t big_a = power(a5, 6), big_b = power(b5, 6), small_a = power(a5, half_low) | 0x80, small_b = power(b5, low - half_low);
        Tile t{};
        if (threadIdx.x == 0) {
            if (where == 0) t.a[0] = big_a | small_a << 8, t.b[0] = big_b | small_b << 8;
            if (where == 1) t.a[0] = big_a, t.b[0] = big_b, t.a[2] = small_a, t.b[1] = small_b;
            if (where == 2) t.a[0] = small_a, t.b[0] = small_b, t.c[0] = (127 + 12) << 23;
            if (where == 3) t.a[0] = big_a | 0x80, t.b[0] = big_b, t.c[0] = (127u + low) << 23;
        }
        multiply(t, form);
        if (threadIdx.x == 0) out[distance - 8] = t.d[0];
    }
}

__global__ void doubles(unsigned long long* sum, double* first) {
    for (int tile = 0; tile < 256; ++tile) {
        uint32_t seed = (tile * 32 + threadIdx.x) * 64;
        double a = (int)hash(seed) * 0x1p-31 * (1 + hash(seed + 1) % 1000), b = (int)hash(seed + 2) * 0x1p-29 / 3, c0 = (int)hash(seed + 3) / 7.0, c1 = 1e-3 * hash(seed + 4);
        double d0, d1;
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};" : "=d"(d0), "=d"(d1) : "d"(a), "d"(b), "d"(c0), "d"(c1));
        atomicAdd(sum, (unsigned long long)__double_as_longlong(d0) * (2 * threadIdx.x + 1) + (unsigned long long)__double_as_longlong(d1) * 5);
        if (tile == 3 && threadIdx.x == 9) first[0] = d0, first[1] = d1;
    }
}

__global__ void large_doubles(unsigned long long* sum, double* first) {
    for (int tile = 0; tile < 256; ++tile) {
        uint32_t seed = (tile * 32 + threadIdx.x) * 64;
        double a[8], b[4], c[4], d[4];
        for (int i = 0; i < 8; ++i) a[i] = (int)hash(seed + i) * 0x1p-31 * (1 + hash(seed + 40 + i) % 1000);
        for (int i = 0; i < 4; ++i) b[i] = (int)hash(seed + 10 + i) * 0x1p-29 / 3, c[i] = (int)hash(seed + 20 + i) / 7.0;
        unsigned long long mine = 0;
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                     : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(b[0]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
        for (int i = 0; i < 4; ++i) mine += (unsigned long long)__double_as_longlong(d[i]) * (2 * i + 1);
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                     : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
        for (int i = 0; i < 4; ++i) mine += (unsigned long long)__double_as_longlong(d[i]) * (2 * i + 11);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%16,%17,%18,%19};"
                     : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]),
                       "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
        for (int i = 0; i < 4; ++i) mine += (unsigned long long)__double_as_longlong(d[i]) * (2 * i + 21);
        atomicAdd(sum, mine * (2 * threadIdx.x + 1));
        if (tile == 3 && threadIdx.x == 9) first[0] = d[0], first[1] = d[3];
    }
}

int main() {
    const char* names[] = {"tf32 k4", "tf32 k8", "s8 k16", "u8 s8 k16 sat", "s8 u8 k32", "u8 k32 sat", "s4 k32", "s4 u4 k64 sat", "u4 k64", "b1 xor", "b1 and",
                           "e4m3", "e5m2", "e4m3 e5m2", "e5m2 e4m3", "e4m3 k16", "e5m2 k16", "s8 m8n8k16", "s4 m8n8k32"};
    unsigned long long* sum;
    uint32_t* out;
    double* values;
    cudaMallocManaged(&sum, sizeof *sum);
    cudaMallocManaged(&out, 16 * sizeof *out);
    cudaMallocManaged(&values, 2 * sizeof *values);
    for (int form = 0; form < 19; ++form) {
        *sum = 0;
        random_tiles<<<64, 32>>>(form, sum, out);
        cudaDeviceSynchronize();
        printf("%s: %016llx, %08x %08x %08x %08x\n", names[form], *sum, out[0], out[1], out[2], out[3]);
    }
    for (int form = 11; form <= 14; ++form)
        for (int where = 0; where < 4; ++where) {
            kept_bits<<<1, 32>>>(form, where, out);
            cudaDeviceSynchronize();
            printf("%s, kept %d:", names[form], where);
            for (int i = 0; i < 16; ++i) printf(" %08x", out[i]);
            printf("\n");
        }
    *sum = 0;
    doubles<<<1, 32>>>(sum, values);
    cudaDeviceSynchronize();
    printf("double m8n8k4: %016llx, %a %a\n", *sum, values[0], values[1]);
    *sum = 0;
    large_doubles<<<1, 32>>>(sum, values);
    cudaDeviceSynchronize();
    printf("double m16n8: %016llx, %a %a\n", *sum, values[0], values[1]);
    return cudaGetLastError();
}
