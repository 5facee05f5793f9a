// wmma with bfloat16, tf32, 8-, 4- and 1-bit integers and double: every shape, sums bit for bit.
#include <cuda_bf16.h>
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

__device__ void set(__nv_bfloat16& x, uint32_t seed) {
    uint32_t h = hash(seed);
    x = __ushort_as_bfloat16((unsigned short)(h >> 31 << 15 | (125 + hash(seed + 7) % 5) << 7 | (h & 0x7f)));
}
__device__ void set(float& x, uint32_t seed) {
    uint32_t h = hash(seed);
    x = __uint_as_float((h & 0x807fffffu) | (124 + hash(seed + 7) % 6) << 23);
}
__device__ void set(double& x, uint32_t seed) { x = (int)hash(seed) * 0x1p-29 / 3; }
__device__ void set(int& x, uint32_t seed) { x = (int)hash(seed) >> 8; }
__device__ void set(signed char& x, uint32_t seed) { x = (signed char)hash(seed); }
__device__ void set(unsigned char& x, uint32_t seed) { x = (unsigned char)hash(seed); }

__device__ unsigned long long bits(float x) { return __float_as_uint(x); }
__device__ unsigned long long bits(double x) { return (unsigned long long)__double_as_longlong(x); }
__device__ unsigned long long bits(int x) { return (unsigned)x; }

template <int M, int N, int K, class Element, class T, class LayoutA, class LayoutB, class Accumulator>
__global__ void product(wmma::layout_t layout, unsigned long long* sum, int* elements) {
    __shared__ __align__(32) T a[32 * 32], b[32 * 32];
    __shared__ __align__(32) Accumulator c[32 * 40];
    for (unsigned i = threadIdx.x; i < 32 * 32; i += 32) set(a[i], i * 3), set(b[i], i * 5 + 100000);
    for (unsigned i = threadIdx.x; i < 32 * 40; i += 32) set(c[i], i * 7 + 200000);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, M, N, K, Element, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, Element, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Accumulator> fc, fd;
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::load_matrix_sync(fc, c, 40, layout);
    if constexpr (std::is_same<Element, wmma::precision::tf32>::value) {
        for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    }
    wmma::mma_sync(fd, fa, fb, fc);
    wmma::mma_sync(fd, fa, fb, fd);
    __syncwarp();
    for (unsigned i = threadIdx.x; i < 32 * 40; i += 32) c[i] = 0;
    __syncwarp();
    wmma::store_matrix_sync(c, fd, 40, layout);
    __syncwarp();
    unsigned long long mine = 0;
    for (unsigned i = threadIdx.x; i < 32 * 40; i += 32) mine += bits(c[i]) * (2 * i + 1);
    atomicAdd(sum, mine);
    if (threadIdx.x == 0) elements[0] = fa.num_elements, elements[1] = fb.num_elements, elements[2] = fc.num_elements;
}

template <int M, int N, int K, class Element, class T, class Accumulator>
void shape(const char* name, unsigned long long* sum, int* elements) {
    using wmma::col_major;
    using wmma::row_major;
    printf("%s:", name);
    for (int layouts = 0; layouts < 4; ++layouts) {
        *sum = 0;
        if (layouts == 0) product<M, N, K, Element, T, row_major, row_major, Accumulator><<<1, 32>>>(wmma::mem_row_major, sum, elements);
        if (layouts == 1) product<M, N, K, Element, T, row_major, col_major, Accumulator><<<1, 32>>>(wmma::mem_col_major, sum, elements);
        if (layouts == 2) product<M, N, K, Element, T, col_major, row_major, Accumulator><<<1, 32>>>(wmma::mem_col_major, sum, elements);
        if (layouts == 3) product<M, N, K, Element, T, col_major, col_major, Accumulator><<<1, 32>>>(wmma::mem_row_major, sum, elements);
        cudaDeviceSynchronize();
        printf(" %016llx", *sum);
    }
    printf(", elements %d %d %d\n", elements[0], elements[1], elements[2]);
}

// 4-bit integers, and single bits.
template <class Element, int K, bool both = false>
__global__ void small_integers(unsigned long long* sum) {
    __shared__ __align__(32) uint32_t a[32], b[32];
    __shared__ __align__(32) int c[64];
    a[threadIdx.x] = hash(threadIdx.x), b[threadIdx.x] = hash(threadIdx.x + 50);
    for (int i = threadIdx.x; i < 64; i += 32) c[i] = (int)hash(i + 500) >> 10;
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 8, 8, K, Element, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, K, Element, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, K, int> fc;
    wmma::load_matrix_sync(fa, a, K);
    wmma::load_matrix_sync(fb, b, K);
    wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
    if constexpr (K == 32) wmma::mma_sync(fc, fa, fb, fc);
    else if constexpr (both) wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND);
    else wmma::bmma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 64; i += 32) atomicAdd(sum, (unsigned long long)(unsigned)c[i] * (2 * i + 1));
}

__global__ void saturating(int* out) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c, d;
    wmma::fill_fragment(a, (signed char)127);
    wmma::fill_fragment(b, (signed char)127);
    wmma::fill_fragment(c, 0x7fffff00);
    wmma::mma_sync(d, a, b, c, true);
    if (threadIdx.x == 0) out[0] = d.x[0];
    wmma::mma_sync(d, a, b, c);
    if (threadIdx.x == 0) out[1] = d.x[0];
}

__global__ void tf32(float* out) {
    const float values[] = {1.0f, 1.00048828125f, 1.0004882f, -1.00048828125f, 1e-40f, 3.4028235e38f, 0.1f, -0.0f};
    for (int i = 0; i < 8; ++i) out[i] = wmma::__float_to_tf32(values[i]);
}

int main() {
    unsigned long long* sum;
    int* out;
    cudaMallocManaged(&sum, sizeof *sum);
    cudaMallocManaged(&out, 8 * sizeof *out);
    shape<16, 16, 16, __nv_bfloat16, __nv_bfloat16, float>("bfloat 16x16x16", sum, out);
    shape<32, 8, 16, __nv_bfloat16, __nv_bfloat16, float>("bfloat 32x8x16", sum, out);
    shape<8, 32, 16, __nv_bfloat16, __nv_bfloat16, float>("bfloat 8x32x16", sum, out);
    shape<16, 16, 8, wmma::precision::tf32, float, float>("tf32 16x16x8", sum, out);
    shape<16, 16, 16, signed char, signed char, int>("s8 16x16x16", sum, out);
    shape<32, 8, 16, signed char, signed char, int>("s8 32x8x16", sum, out);
    shape<8, 32, 16, signed char, signed char, int>("s8 8x32x16", sum, out);
    shape<16, 16, 16, unsigned char, unsigned char, int>("u8 16x16x16", sum, out);
    shape<32, 8, 16, unsigned char, unsigned char, int>("u8 32x8x16", sum, out);
    shape<8, 32, 16, unsigned char, unsigned char, int>("u8 8x32x16", sum, out);
    shape<8, 8, 4, double, double, double>("double 8x8x4", sum, out);
    for (int kind = 0; kind < 4; ++kind) {
        *sum = 0;
        if (kind == 0) small_integers<wmma::experimental::precision::s4, 32><<<1, 32>>>(sum);
        if (kind == 1) small_integers<wmma::experimental::precision::u4, 32><<<1, 32>>>(sum);
        if (kind == 2) small_integers<wmma::experimental::precision::b1, 128><<<1, 32>>>(sum);
        if (kind == 3) small_integers<wmma::experimental::precision::b1, 128, true><<<1, 32>>>(sum);
        cudaDeviceSynchronize();
        printf("small integers %d: %016llx\n", kind, *sum);
    }
    saturating<<<1, 32>>>(out);
    cudaDeviceSynchronize();
    printf("saturating %d %d\n", out[0], out[1]);
    tf32<<<1, 1>>>((float*)out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 8; ++i) printf("%08x%c", out[i], i == 7 ? '\n' : ' ');
    return cudaGetLastError();
}
