// wmma with half: every shape, layout and accumulator; sums bit for bit, and which element of the tile each x[i] of an accumulator is.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
using namespace nvcuda;

__device__ uint32_t hash(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ half value(uint32_t seed) {
    uint32_t h = hash(seed);
    return __ushort_as_half((unsigned short)(h >> 31 << 15 | (13 + hash(seed + 7) % 5) << 10 | (h & 0x3ff)));
}

__device__ float widen(float x) { return x; }
__device__ float widen(half x) { return __half2float(x); }
__device__ void set(float& x, uint32_t seed) { x = widen(value(seed)) * 3.7f; }
__device__ void set(half& x, uint32_t seed) { x = value(seed); }

template <int M, int N, class LayoutA, class LayoutB, class Accumulator>
__global__ void product(wmma::layout_t layout, unsigned long long* sum) {
    __shared__ __align__(32) half a[32 * 24], b[32 * 24];
    __shared__ __align__(32) Accumulator c[32 * 40];
    unsigned lane = threadIdx.x;
    for (unsigned i = lane; i < 32 * 24; i += 32) a[i] = value(i * 3), b[i] = value(i * 5 + 100000);
    for (unsigned i = lane; i < 32 * 40; i += 32) set(c[i], i * 7 + 200000);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, M, N, 16, half, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, 16, half, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, 16, Accumulator> fc, fd;
    constexpr int lda = std::is_same<LayoutA, wmma::row_major>::value ? 24 : M == 8 ? 24 : M, ldb = std::is_same<LayoutB, wmma::col_major>::value ? 24 : N == 8 ? 24 : N;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, 40, layout);
    wmma::mma_sync(fd, fa, fb, fc);
    wmma::mma_sync(fd, fa, fb, fd);
    for (int i = 0; i < fd.num_elements; ++i) fd.x[i] = fd.x[i] * Accumulator(0.5f);
    __syncwarp();
    for (unsigned i = lane; i < 32 * 40; i += 32) c[i] = Accumulator(0.0f);
    __syncwarp();
    wmma::store_matrix_sync(c, fd, 40, layout);
    __syncwarp();
    unsigned long long mine = 0;
    for (unsigned i = lane; i < 32 * 40; i += 32) mine += (unsigned long long)__float_as_uint(widen(c[i])) * (2 * i + 1);
    atomicAdd(sum, mine);
}

template <int M, int N, class Accumulator>
void shape(const char* name, unsigned long long* sum) {
    using wmma::col_major;
    using wmma::row_major;
    for (wmma::layout_t layout : {wmma::mem_row_major, wmma::mem_col_major}) {
        printf("%s:", name);
        for (int layouts = 0; layouts < 4; ++layouts) {
            *sum = 0;
            if (layouts == 0) product<M, N, row_major, row_major, Accumulator><<<1, 32>>>(layout, sum);
            if (layouts == 1) product<M, N, row_major, col_major, Accumulator><<<1, 32>>>(layout, sum);
            if (layouts == 2) product<M, N, col_major, row_major, Accumulator><<<1, 32>>>(layout, sum);
            if (layouts == 3) product<M, N, col_major, col_major, Accumulator><<<1, 32>>>(layout, sum);
            cudaDeviceSynchronize();
            printf(" %016llx", *sum);
        }
        printf("\n");
    }
}

// What some lanes find in x[] when every element of the matrix is its own index.
template <class Fragment>
__device__ void print_lanes(const char* name, const Fragment& f) {
    for (int lane = 0; lane < 32; ++lane) {
        if (threadIdx.x == lane && (lane < 2 || lane == 5 || lane == 30)) {
            printf("%s lane %d:", name, lane);
            for (int i = 0; i < f.num_elements; ++i) printf(" %d", (int)widen(f.x[i]));
            printf("\n");
        }
        __syncwarp();
    }
}

__global__ void elements() {
    __shared__ __align__(32) half h[256];
    __shared__ __align__(32) float f[256];
    for (int i = threadIdx.x; i < 256; i += 32) h[i] = half(float(i)), f[i] = float(i);
    __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::load_matrix_sync(c, f, 16, wmma::mem_row_major);
    print_lanes("float", c);
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> ch;
    wmma::load_matrix_sync(ch, h, 16, wmma::mem_row_major);
    print_lanes("half", ch);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, h, 16);
    print_lanes("A row", a);
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(b, h, 16);
    print_lanes("B row", b);
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bc;
    wmma::load_matrix_sync(bc, h, 16);
    print_lanes("B col", bc);
    wmma::fragment<wmma::accumulator, 32, 8, 16, float> tall;
    wmma::load_matrix_sync(tall, f, 8, wmma::mem_row_major);
    print_lanes("32x8", tall);
    wmma::fragment<wmma::accumulator, 8, 32, 16, float> wide;
    wmma::load_matrix_sync(wide, f, 32, wmma::mem_row_major);
    print_lanes("8x32", wide);
    wmma::fill_fragment(c, 2.5f);
    wmma::store_matrix_sync(f, c, 16, wmma::mem_col_major);
    __syncwarp();
    if (threadIdx.x == 0) printf("filled %g %g, elements %d %d %d\n", f[0], f[255], a.num_elements, b.num_elements, c.num_elements);
}

// 64 x 64 x 64 from global memory, four warps a block, each a tile.
__global__ void gemm(const half* a, const half* b, float* c) {
    int row = (threadIdx.x / 32 / 2 + blockIdx.y * 2) * 16, col = (threadIdx.x / 32 % 2 + blockIdx.x * 2) * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < 64; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, a + row * 64 + k, 64);
        wmma::load_matrix_sync(fb, b + k * 64 + col, 64);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(c + row * 64 + col, sum, 64, wmma::mem_row_major);
}

__global__ void fill(half* a, half* b) {
    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) a[i] = value(i + 300000), b[i] = value(i + 400000);
}

int main() {
    unsigned long long* sum;
    cudaMallocManaged(&sum, sizeof *sum);
    shape<16, 16, float>("16x16x16 float", sum);
    shape<32, 8, float>("32x8x16 float", sum);
    shape<8, 32, float>("8x32x16 float", sum);
    shape<16, 16, half>("16x16x16 half", sum);
    shape<32, 8, half>("32x8x16 half", sum);
    shape<8, 32, half>("8x32x16 half", sum);
    elements<<<1, 32>>>();
    cudaDeviceSynchronize();
    half *a, *b;
    float* c;
    cudaMallocManaged(&a, 64 * 64 * sizeof(half));
    cudaMallocManaged(&b, 64 * 64 * sizeof(half));
    cudaMallocManaged(&c, 64 * 64 * sizeof(float));
    fill<<<1, 256>>>(a, b);
    gemm<<<dim3(2, 2), 128>>>(a, b, c);
    cudaDeviceSynchronize();
    uint32_t folded = 0;
    for (int i = 0; i < 64 * 64; ++i) {
        uint32_t bits;
        memcpy(&bits, &c[i], 4);
        folded = folded * 31 + bits;
    }
    printf("gemm %08x %a %a\n", folded, c[0], c[4095]);
    return cudaGetLastError();
}
