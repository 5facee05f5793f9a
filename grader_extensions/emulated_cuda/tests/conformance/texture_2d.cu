// Texture objects over CUDA arrays and pitched memory: filters, address modes, normalized coordinates, one, two and three dimensions.
// Coordinates are multiples of 1/256 and texels small integers, so that the formulas of the CUDA Programming Guide give exact values.
#include <cstdio>
#include <cstring>

__global__ void row(cudaTextureObject_t texture, float first, float step, float* out) {
    float x = first + threadIdx.x * step;
    out[threadIdx.x] = tex1D<float>(texture, x);
}

__global__ void plane(cudaTextureObject_t texture, float first, float step, float* out) {
    float x = first + threadIdx.x * step, y = first + threadIdx.y * step, value;
    tex2D(&value, texture, x, y);
    out[threadIdx.y * blockDim.x + threadIdx.x] = value;
}

__global__ void volume(cudaTextureObject_t texture, float* out) {
    float i = threadIdx.x;
    out[threadIdx.x] = tex3D<float>(texture, 0.5f + i * 0.25f, 0.5f + i * 0.5f, 1 + i * 0.125f);
}

__global__ void pairs(cudaTextureObject_t texture, float* out) {
    float2 value = tex2D<float2>(texture, 1.5f, threadIdx.x + 0.5f);
    out[2 * threadIdx.x] = value.x;
    out[2 * threadIdx.x + 1] = value.y;
}

__global__ void bytes(cudaTextureObject_t texture, float* out) {
    float x = 0.5f + threadIdx.x * 0.5f;
    out[threadIdx.x] = tex2D<float>(texture, x, 0.5f);
}

cudaTextureObject_t make(const cudaResourceDesc& resource, cudaTextureAddressMode mode, cudaTextureFilterMode filter, int normalized,
                         cudaTextureReadMode read = cudaReadModeElementType) {
    cudaTextureDesc how;
    memset(&how, 0, sizeof how);
    how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = mode;
    how.filterMode = filter;
    how.normalizedCoords = normalized;
    how.readMode = read;
    cudaTextureObject_t texture = 0;
    cudaError_t error = cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    if (error != cudaSuccess) printf("refused\n");
    return texture;
}

cudaResourceDesc of(cudaArray_t array) {
    cudaResourceDesc resource;
    memset(&resource, 0, sizeof resource);
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    return resource;
}

void show(const char* what, const float* values, int count) {
    cudaDeviceSynchronize();
    printf("%s:", what);
    for (int i = 0; i < count; ++i) printf(" %g", values[i]);
    printf("\n");
}

int main() {
    float *out, host[64];
    cudaMallocManaged(&out, 64 * sizeof(float));
    for (int i = 0; i < 64; ++i) host[i] = i * i;
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();

    cudaArray_t line;
    cudaMallocArray(&line, &floats, 4, 0);
    cudaMemcpy2DToArray(line, 0, 0, host, 16, 16, 1, cudaMemcpyHostToDevice);
    const char* names[] = {"wrap", "clamp", "mirror", "border"};
    for (int mode = 0; mode < 4; ++mode) {
        auto address = static_cast<cudaTextureAddressMode>(mode);
        printf("%s\n", names[mode]);
        row<<<1, 14>>>(make(of(line), address, cudaFilterModePoint, 0), -1.5f, 0.5f, out);
        show(" nearest", out, 14);
        row<<<1, 14>>>(make(of(line), address, cudaFilterModeLinear, 0), -1.5f, 0.5f, out);
        show(" linear", out, 14);
        row<<<1, 14>>>(make(of(line), address, cudaFilterModePoint, 1), -1.1875f, 0.25f, out);
        show(" nearest, normalized", out, 14);
        row<<<1, 14>>>(make(of(line), address, cudaFilterModeLinear, 1), -1.1875f, 0.25f, out);
        show(" linear, normalized", out, 14);
    }
    row<<<1, 5>>>(make(of(line), cudaAddressModeClamp, cudaFilterModeLinear, 0), 2.5f, 1.0f / 256, out);
    show("256ths", out, 5);

    cudaArray_t sheet;
    cudaMallocArray(&sheet, &floats, 3, 3);
    cudaMemcpy2DToArray(sheet, 0, 0, host, 12, 12, 3, cudaMemcpyHostToDevice);
    plane<<<1, dim3(4, 4)>>>(make(of(sheet), cudaAddressModeBorder, cudaFilterModeLinear, 0), 0.0f, 0.75f, out);
    show("plane, border", out, 16);
    plane<<<1, dim3(4, 4)>>>(make(of(sheet), cudaAddressModeClamp, cudaFilterModePoint, 0), -0.5f, 1.0f, out);
    show("plane, clamp", out, 16);
    float back[4] = {};
    cudaMemcpy2DFromArray(back, 8, sheet, 4, 1, 8, 2, cudaMemcpyDeviceToHost);
    printf("back: %g %g %g %g\n", back[0], back[1], back[2], back[3]);

    float2* pitched;
    size_t pitch;
    cudaMallocPitch(&pitched, &pitch, 3 * sizeof(float2), 4);
    cudaMemcpy2D(pitched, pitch, host, 24, 24, 4, cudaMemcpyHostToDevice);
    cudaResourceDesc resource;
    memset(&resource, 0, sizeof resource);
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pitched;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float2>();
    resource.res.pitch2D.width = 3;
    resource.res.pitch2D.height = 4;
    resource.res.pitch2D.pitchInBytes = pitch;
    pairs<<<1, 4>>>(make(resource, cudaAddressModeClamp, cudaFilterModePoint, 0), out);
    show("pitched pairs", out, 8);

    cudaChannelFormatDesc octets = cudaCreateChannelDesc<unsigned char>();
    cudaArray_t small;
    cudaMallocArray(&small, &octets, 3, 1);
    unsigned char levels[3] = {0, 51, 255};
    cudaMemcpy2DToArray(small, 0, 0, levels, 3, 3, 1, cudaMemcpyHostToDevice);
    bytes<<<1, 5>>>(make(of(small), cudaAddressModeClamp, cudaFilterModeLinear, 0, cudaReadModeNormalizedFloat), out);
    show("bytes as floats", out, 5);
    make(of(small), cudaAddressModeClamp, cudaFilterModeLinear, 0);

    cudaArray_t cube;
    cudaExtent extent = make_cudaExtent(2, 3, 4);
    cudaMalloc3DArray(&cube, &floats, extent);
    cudaMemcpy3DParms copy;
    memset(&copy, 0, sizeof copy);
    copy.srcPtr = make_cudaPitchedPtr(host, 2 * sizeof(float), 2, 3);
    copy.dstArray = cube;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    printf("%s\n", cudaGetErrorName(cudaMemcpy3D(&copy)));
    volume<<<1, 5>>>(make(of(cube), cudaAddressModeClamp, cudaFilterModeLinear, 0), out);
    show("volume", out, 5);
    printf("%s\n", cudaGetErrorName(cudaFreeArray(cube)));
}
