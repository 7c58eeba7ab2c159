// A sum in one launch: the block that finishes last adds the others' partial sums. And stages
// of a pipeline by asynchronous copies.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

#include <cuda_pipeline_primitives.h>

__device__ unsigned finished = 0;

extern "C" __global__ void last_block(const int *input, volatile int *partial, int *sum, int count)
{
    __shared__ int shared[128];
    __shared__ bool last;
    int value = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < count; i += gridDim.x * 128)
        value += input[i];
    shared[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 128; ++i)
            value += shared[i];
        partial[blockIdx.x] = value;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (int block = 0; block < gridDim.x; ++block)
            total += partial[block];
        *sum = total;
    }
}

extern "C" __global__ void pipeline(const float4 *input, float4 *output, int tiles)
{
    __shared__ float4 stages[3][64];
    int thread = threadIdx.x;
    const float4 *from = input + (size_t)blockIdx.x * tiles * 64;
    float4 *to = output + (size_t)blockIdx.x * 64;
    for (int tile = 0; tile < 2; ++tile) {
        if (tile < tiles)
            __pipeline_memcpy_async(&stages[tile][thread], &from[tile * 64 + thread], 16);
        __pipeline_commit();
    }
    float4 sum = make_float4(0, 0, 0, 0);
    for (int tile = 0; tile < tiles; ++tile) {
        int next = tile + 2;
        if (next < tiles)
            __pipeline_memcpy_async(&stages[next % 3][thread], &from[next * 64 + thread], 16);
        __pipeline_commit();
        __pipeline_wait_prior(2);
        __syncthreads();
        // Another thread's element, so that the barrier is needed.
        float4 value = stages[tile % 3][63 - thread];
        sum.x += value.x;
        sum.y += value.y;
        sum.z += value.z;
        sum.w += value.w;
        __syncthreads();
    }
    to[thread] = sum;
}
