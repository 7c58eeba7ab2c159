// C = A B for row-major matrices, as tutorials do it: one dot product per thread, then tiles.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

#define TILE 16

extern "C" __global__ void matmul_naive(const float *a, const float *b, float *c,
                                        int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && column < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; ++i)
            sum += a[row * k + i] * b[i * n + column];
        c[row * n + column] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul_tiled(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
             int m, int n, int k)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int from = 0; from < k; from += TILE) {
        int x = from + threadIdx.x, y = from + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i)
            sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
