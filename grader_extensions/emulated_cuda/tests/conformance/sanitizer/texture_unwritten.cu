// finds: error uninitialised_read
// A texel is read that nothing has written.
__global__ void copy(cudaTextureObject_t texture, float* out) {
    int i = threadIdx.x;
    out[i] = tex1Dfetch<float>(texture, i);  // line
}

int main() {
    float *x, *out, host[64] = {};
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&out, sizeof host);
#ifdef FIXED
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
#else
    cudaMemcpy(x, host, sizeof host - 4, cudaMemcpyHostToDevice);
#endif
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = x;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = sizeof host;
    cudaTextureDesc how{};
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    copy<<<1, 64>>>(texture, out);
    cudaDeviceSynchronize();
}
