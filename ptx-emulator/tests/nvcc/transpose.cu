// A transposition through a tile of shared memory, padded against bank conflicts.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

#define TILE 32
#define ROWS 8

extern "C" __global__ void transpose(const float *input, float *output, int width, int height)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS)
        if (x < width && y + row < height)
            tile[threadIdx.y + row][threadIdx.x] = input[(size_t)(y + row) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS)
        if (x < height && y + row < width)
            output[(size_t)(y + row) * height + x] = tile[threadIdx.x][threadIdx.y + row];
}
