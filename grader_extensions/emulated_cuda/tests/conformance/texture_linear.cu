// Texture objects over linear memory: every kind of texel, both forms of tex1Dfetch, reads out of range, and an address that is refused.
#include <cstdint>
#include <cstdio>

template <class T>
cudaTextureObject_t over(T* memory, size_t count, cudaTextureReadMode mode = cudaReadModeElementType) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<T>();
    resource.res.linear.sizeInBytes = count * sizeof(T);
    cudaTextureDesc how{};
    how.readMode = mode;
    cudaTextureObject_t texture = 0;
    cudaError_t error = cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    if (error != cudaSuccess) printf("refused\n");
    return texture;
}

__global__ void copy(cudaTextureObject_t texture, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(texture, i - 2);
}

__global__ void sums(cudaTextureObject_t floats4, cudaTextureObject_t ints2, cudaTextureObject_t bytes4, cudaTextureObject_t shorts,
                     float* out) {
    int i = threadIdx.x;
    float4 f = tex1Dfetch<float4>(floats4, i);
    int2 n;
    tex1Dfetch(&n, ints2, i);
    uchar4 b = tex1Dfetch<uchar4>(bytes4, i);
    short s;
    tex1Dfetch(&s, shorts, i);
    out[4 * i] = f.x + 10 * f.y + 100 * f.z + 1000 * f.w;
    out[4 * i + 1] = n.x * 1000 + n.y;
    out[4 * i + 2] = b.x + 10 * b.y + 100 * b.z + 1000 * b.w;
    out[4 * i + 3] = s;
}

__global__ void normalized(cudaTextureObject_t bytes, cudaTextureObject_t chars, float* out) {
    int i = threadIdx.x;
    out[2 * i] = tex1Dfetch<float>(bytes, i);
    out[2 * i + 1] = tex1Dfetch<float>(chars, i);
}

template <class T>
T* filled(int count, int first, int step) {
    T* memory;
    cudaMallocManaged(&memory, count * sizeof(T));
    for (int i = 0; i < count; ++i) memory[i] = static_cast<T>(first + i * step);
    return memory;
}

void show(const char* what, const float* values, int count) {
    cudaDeviceSynchronize();
    printf("%s:", what);
    for (int i = 0; i < count; ++i) printf(" %g", values[i]);
    printf("\n");
}

int main() {
    float* out = filled<float>(64, -1, 0);
    float* x = filled<float>(8, 3, 2);
    cudaTextureObject_t texture = over(x, 8);
    copy<<<3, 5>>>(texture, out, 12);
    show("floats, two before and two behind", out, 12);

    float4* floats4 = reinterpret_cast<float4*>(filled<float>(16, 0, 1));
    int2* ints2 = reinterpret_cast<int2*>(filled<int>(8, -3, 1));
    uchar4* bytes4 = reinterpret_cast<uchar4*>(filled<unsigned char>(16, 1, 3));
    short* shorts = filled<short>(4, -2, 1);
    sums<<<1, 4>>>(over(floats4, 4), over(ints2, 4), over(bytes4, 4), over(shorts, 4), out);
    show("vectors", out, 16);

    unsigned char* bytes = filled<unsigned char>(3, 0, 51);
    bytes[2] = 255;
    signed char* chars = filled<signed char>(3, -128, 1);
    chars[2] = 127;
    normalized<<<1, 3>>>(over(bytes, 3, cudaReadModeNormalizedFloat), over(chars, 3, cudaReadModeNormalizedFloat), out);
    show("normalized", out, 6);

    cudaResourceDesc found{};
    printf("%s", cudaGetErrorName(cudaGetTextureObjectResourceDesc(&found, texture)));
    printf(" %d %d %d\n", found.resType == cudaResourceTypeLinear, found.res.linear.devPtr == x, found.res.linear.desc.x);
    printf("%s\n", cudaGetErrorName(cudaDestroyTextureObject(texture)));
    over(x + 1, 4);
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<ushort2>();
    printf("%d %d %d %d %d\n", desc.x, desc.y, desc.z, desc.w, desc.f == cudaChannelFormatKindUnsigned);
}
