// CUDA C++ twins of k01_naive and k02_tiled, for comparison in the same run.
//
// Two forms of each kernel. "tutorial" is what the tutorials teach: square-stride row-major matrices, C = A * B, 32-bit
// index arithmetic. "twin" does what ours does: any strides, alpha, beta, 64-bit offsets, with our parameters
// (gemm_spec::GemmParams). Names: tutorial_<algorithm>_<tile>_<dtype>, twin_<algorithm>_<tile>_<dtype>.

#include <cstdint>

template <typename T>
struct GemmParams {
    uint64_t m, n, k;
    int64_t a_row_stride, a_col_stride;
    int64_t b_row_stride, b_col_stride;
    int64_t c_row_stride, c_col_stride;
    T alpha, beta;
    uint32_t reads_c;
};

template <typename T>
__device__ void store(T *c, const GemmParams<T> &p, uint64_t row, uint64_t col, T sum) {
    c += (int64_t)row * p.c_row_stride + (int64_t)col * p.c_col_stride;
    T value = p.alpha * sum;
    if (p.reads_c) value += p.beta * *c;
    *c = value;
}

template <typename T, int TILE>
__device__ void twin_naive(const T *a, const T *b, T *c, const GemmParams<T> &p) {
    uint64_t row = (uint64_t)blockIdx.y * TILE + threadIdx.y;
    uint64_t col = (uint64_t)blockIdx.x * TILE + threadIdx.x;
    if (row >= p.m || col >= p.n) return;
    a += (int64_t)row * p.a_row_stride;
    b += (int64_t)col * p.b_col_stride;
    T sum = 0;
    for (uint64_t i = 0; i < p.k; i++) {
        sum += *a * *b;
        a += p.a_col_stride;
        b += p.b_row_stride;
    }
    store(c, p, row, col, sum);
}

template <typename T, int TILE>
__device__ void twin_tiled(const T *a, const T *b, T *c, const GemmParams<T> &p) {
    __shared__ T tile_a[TILE][TILE];
    __shared__ T tile_b[TILE][TILE];
    int i = threadIdx.y, j = threadIdx.x;
    uint64_t row = (uint64_t)blockIdx.y * TILE + i;
    uint64_t col = (uint64_t)blockIdx.x * TILE + j;
    a += (int64_t)row * p.a_row_stride + j * p.a_col_stride;
    b += i * p.b_row_stride + (int64_t)col * p.b_col_stride;
    T sum = 0;
    for (uint64_t k0 = 0; k0 < p.k; k0 += TILE) {
        tile_a[i][j] = row < p.m && k0 + j < p.k ? *a : (T)0;
        tile_b[i][j] = col < p.n && k0 + i < p.k ? *b : (T)0;
        __syncthreads();
        for (int l = 0; l < TILE; l++) sum += tile_a[i][l] * tile_b[l][j];
        __syncthreads();
        a += TILE * p.a_col_stride;
        b += TILE * p.b_row_stride;
    }
    if (row < p.m && col < p.n) store(c, p, row, col, sum);
}

template <typename T, int TILE>
__device__ void tutorial_naive(const T *a, const T *b, T *c, int m, int n, int k) {
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    if (row >= m || col >= n) return;
    T sum = 0;
    for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}

template <typename T, int TILE>
__device__ void tutorial_tiled(const T *a, const T *b, T *c, int m, int n, int k) {
    __shared__ T tile_a[TILE][TILE];
    __shared__ T tile_b[TILE][TILE];
    int i = threadIdx.y, j = threadIdx.x;
    int row = blockIdx.y * TILE + i;
    int col = blockIdx.x * TILE + j;
    T sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
        tile_a[i][j] = row < m && t * TILE + j < k ? a[row * k + t * TILE + j] : (T)0;
        tile_b[i][j] = col < n && t * TILE + i < k ? b[(t * TILE + i) * n + col] : (T)0;
        __syncthreads();
        for (int l = 0; l < TILE; l++) sum += tile_a[i][l] * tile_b[l][j];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

#define KERNELS(T, dtype, tile, algorithm)                                                              \
    extern "C" __global__ void __launch_bounds__(tile * tile)                                           \
        twin_##algorithm##_##tile##_##dtype(const T *a, const T *b, T *c, const GemmParams<T> p) {      \
        twin_##algorithm<T, tile>(a, b, c, p);                                                          \
    }                                                                                                   \
    extern "C" __global__ void __launch_bounds__(tile * tile) tutorial_##algorithm##_##tile##_##dtype( \
        const T *a, const T *b, T *c, int m, int n, int k) {                                            \
        tutorial_##algorithm<T, tile>(a, b, c, m, n, k);                                                \
    }

#define DTYPES(tile, algorithm)             \
    KERNELS(int32_t, i32, tile, algorithm)  \
    KERNELS(float, f32, tile, algorithm)    \
    KERNELS(double, f64, tile, algorithm)

DTYPES(16, naive)
DTYPES(8, tiled)
DTYPES(16, tiled)
DTYPES(32, tiled)
