// A transposition through a padded tile, four rows a thread.
#include <cstdio>
const int TILE = 32, ROWS = 8;
__global__ void transpose(const float* in, float* out, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
int main() {
    const int w = 100, h = 45;
    static float data[w * h];
    float *in, *out;
    int wrong = 0;
    for (int i = 0; i < w * h; ++i) data[i] = i;
    cudaMalloc(&in, sizeof data), cudaMalloc(&out, sizeof data);
    cudaMemcpy(in, data, sizeof data, cudaMemcpyHostToDevice);
    transpose<<<dim3((w + TILE - 1) / TILE, (h + TILE - 1) / TILE), dim3(TILE, ROWS)>>>(in, out, w, h);
    cudaMemcpy(data, out, sizeof data, cudaMemcpyDeviceToHost);
    for (int i = 0; i < w; ++i)
        for (int j = 0; j < h; ++j) wrong += data[i * h + j] != j * w + i;
    printf("%d wrong\n", wrong);
}
