// ldmatrix, stmatrix and movmatrix: which element of which 8x8 matrix each lane holds, in macros as public kernels write them.
#include <cstdint>
#include <cstdio>

#define LDMATRIX_X1(R, addr) asm volatile("ldmatrix.sync.aligned.x1.m8n8.shared.b16 {%0}, [%1];\n" : "=r"(R) : "r"(addr))
#define LDMATRIX_X2(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                     \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"          \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                       \
                 : "r"(addr))
#define LDMATRIX_X4_T(R0, R1, R2, R3, addr)                                                          \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0, %1, %2, %3}, [%4];\n"      \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                              \
                 : "r"(addr))
#define PUT(value) out[n++ * 32 + lane] = (value)

static constexpr int most = 60;

__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ int loads(uint32_t* out, int n, int lane, uint16_t (*tile)[40]) {
    uint32_t r[4], address = shared_address(&tile[lane % 16][lane / 16 * 8]);
    LDMATRIX_X1(r[0], address);
    PUT(r[0]);
    LDMATRIX_X2(r[0], r[1], address);
    PUT(r[0]), PUT(r[1]);
    LDMATRIX_X4(r[0], r[1], r[2], r[3], address);
    PUT(r[0]), PUT(r[1]), PUT(r[2]), PUT(r[3]);
    LDMATRIX_X4_T(r[0], r[1], r[2], r[3], address);
    PUT(r[0]), PUT(r[1]), PUT(r[2]), PUT(r[3]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address));
    PUT(r[0]);
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2+16];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
    PUT(r[0]), PUT(r[1]);
    // Rows in any order, and the same row twice.
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(&tile[lane * 5 % 16][lane % 5 * 8])));
    PUT(r[0]), PUT(r[1]), PUT(r[2]), PUT(r[3]);
    return n;
}

__device__ int stores(uint32_t* out, int n, int lane, uint16_t (*tile)[40]) {
    uint32_t r[4] = {lane * 65537u, lane * 65537u + 0x01000200, lane * 65537u + 0x03000400, lane * 65537u + 0x05000600};
    uint32_t address = shared_address(&tile[lane % 16][lane / 16 * 8]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    __syncwarp();
    for (int row = 0; row < 15; row += 5) PUT(tile[row][lane % 16] | tile[row + lane / 16 % 2][lane % 16] << 16);
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};\n" ::"r"(address), "r"(r[2]), "r"(r[1]) : "memory");
    __syncwarp();
    for (int row = 0; row < 15; row += 5) PUT(tile[row][lane % 16] | tile[row + lane / 16 % 2][lane % 16] << 16);
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.x1.m8n8.shared.b16 [%0], {%1};\n" ::"r"(address), "r"(r[3]) : "memory");
    __syncwarp();
    for (int row = 0; row < 8; row += 3) PUT(tile[row][lane % 16]);
    return n;
}

__device__ int moves(uint32_t* out, int n, int lane) {
    uint32_t r, value = (lane * 2 + 1) << 16 | lane * 2;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(value));
    PUT(r);
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(r));
    PUT(r);
    return n;
}

__global__ void run(uint32_t* out, int* counts) {
    __shared__ alignas(16) uint16_t tile[16][40];
    int lane = threadIdx.x, n = 0;
    for (int i = lane; i < 16 * 40; i += 32) tile[i / 40][i % 40] = i / 40 * 256 + i % 40;
    __syncthreads();
    counts[0] = n = loads(out, n, lane, tile);
    __syncthreads();
    counts[1] = n = stores(out, n, lane, tile);
    __syncthreads();
    counts[2] = n = moves(out, n, lane);
}

int main() {
    static uint32_t h[most * 32];
    int counts[3], *device_counts;
    uint32_t* out;
    cudaMalloc(&out, sizeof h), cudaMalloc(&device_counts, sizeof counts);
    run<<<1, 32>>>(out, device_counts);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(counts, device_counts, sizeof counts, cudaMemcpyDeviceToHost);
    const char* names[] = {"ldmatrix", "stmatrix", "movmatrix"};
    for (int group = 0, slot = 0; group < 3; ++group) {
        printf("%s: %d", names[group], counts[group]);
        for (int start = slot; slot < counts[group]; ++slot) {
            uint32_t sum = 0;
            for (int lane = 0; lane < 32; ++lane) sum = sum * 31 + h[slot * 32 + lane];
            printf("%s%08x/%08x/%08x", (slot - start) % 5 ? " " : "\n  ", h[slot * 32 + 1], h[slot * 32 + 22], sum);
        }
        printf("\n");
    }
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
