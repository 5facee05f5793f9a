// cuRAND in kernels: the sequences of XORWOW and Philox.
#include <cstdio>
#include <curand_kernel.h>
template <typename State>
__global__ void draw(unsigned* bits, float* uniform, float* normal, double* doubles, unsigned long long seed, unsigned long long offset) {
    State state;
    int t = threadIdx.x;
    curand_init(seed, t, offset, &state);
    for (int i = 0; i < 6; ++i) bits[t * 8 + i] = curand(&state);
    uniform[t * 4 + 0] = curand_uniform(&state);
    uniform[t * 4 + 1] = curand_uniform(&state);
    State copy = state;
    skipahead(5ull, &copy);
    bits[t * 8 + 6] = curand(&copy);
    skipahead_sequence(3ull, &copy);
    bits[t * 8 + 7] = curand(&copy);
    uniform[t * 4 + 2] = curand_uniform(&copy);
    uniform[t * 4 + 3] = curand_uniform(&copy);
    for (int i = 0; i < 3; ++i) normal[t * 8 + i] = curand_normal(&state);
    float2 two = curand_normal2(&state);
    normal[t * 8 + 3] = two.x, normal[t * 8 + 4] = two.y;
    normal[t * 8 + 5] = curand_log_normal(&state, 0.5f, 0.25f);
    normal[t * 8 + 6] = curand_normal(&state);
    normal[t * 8 + 7] = curand_normal(&state);
    doubles[t * 4 + 0] = curand_uniform_double(&state);
    doubles[t * 4 + 1] = curand_uniform_double(&state);
    doubles[t * 4 + 2] = curand_normal_double(&state);
    doubles[t * 4 + 3] = curand_uniform(&state);
}
__global__ void four(unsigned* bits, float* uniform, float* normal) {
    curandStatePhilox4_32_10_t state;
    curand_init(99ull, threadIdx.x, 7ull, &state);
    uint4 a = curand4(&state);
    float4 u = curand_uniform4(&state), n = curand_normal4(&state);
    int t = threadIdx.x;
    bits[t * 4] = a.x, bits[t * 4 + 1] = a.y, bits[t * 4 + 2] = a.z, bits[t * 4 + 3] = a.w;
    uniform[t * 4] = u.x, uniform[t * 4 + 1] = u.y, uniform[t * 4 + 2] = u.z, uniform[t * 4 + 3] = u.w;
    normal[t * 4] = n.x, normal[t * 4 + 1] = n.y, normal[t * 4 + 2] = n.z, normal[t * 4 + 3] = n.w;
}
unsigned* bits;
float *uniform, *normal;
double* doubles;
void show(const char* name, int bit_count, int uniform_count, int normal_count, int double_count) {
    cudaDeviceSynchronize();
    unsigned sum = 0;
    for (int i = 0; i < bit_count; ++i) sum = sum * 31 + bits[i];
    printf("%s bits %08x:", name, sum);
    for (int i = 0; i < 8; ++i) printf(" %08x", bits[i]);
    sum = 0;
    for (int i = 0; i < uniform_count; ++i) sum = sum * 31 + __builtin_bit_cast(unsigned, uniform[i]);
    printf("\n%s uniform %08x: %.9g %.9g %.9g %.9g\n", name, sum, uniform[0], uniform[1], uniform[2], uniform[3]);
    double mean = 0, square = 0;
    for (int i = 0; i < normal_count; ++i) mean += normal[i], square += normal[i] * normal[i];
    printf("%s normal %.3f %.3f: %.4f %.4f %.4f %.4f\n", name, mean / normal_count, square / normal_count, normal[0], normal[1], normal[2], normal[normal_count - 1]);
    for (int i = 0; i < double_count; i += 4) printf("%s double %.17g %.17g %.9f %.9g\n", name, doubles[i], doubles[i + 1], doubles[i + 2], doubles[i + 3]);
}
int main() {
    cudaMallocManaged(&bits, 4096), cudaMallocManaged(&uniform, 4096), cudaMallocManaged(&normal, 4096), cudaMallocManaged(&doubles, 4096);
    draw<curandStateXORWOW_t><<<1, 32>>>(bits, uniform, normal, doubles, 1234, 0);
    show("xorwow", 256, 128, 256, 16);
    draw<curandState><<<1, 32>>>(bits, uniform, normal, doubles, 0x123456789abcdefull, 1000003);
    show("xorwow far", 256, 128, 256, 8);
    draw<curandStatePhilox4_32_10_t><<<1, 32>>>(bits, uniform, normal, doubles, 1234, 0);
    show("philox", 256, 128, 256, 16);
    draw<curandStatePhilox4_32_10_t><<<1, 32>>>(bits, uniform, normal, doubles, 0x123456789abcdefull, 1000003);
    show("philox far", 256, 128, 256, 8);
    four<<<1, 32>>>(bits, uniform, normal);
    show("four", 128, 128, 128, 0);
}
