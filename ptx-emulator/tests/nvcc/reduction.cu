// The sum of an array: shuffles in a warp, shared memory between warps, an atomic between blocks.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

__device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

extern "C" __global__ void reduction(const float *input, float *sum, int count)
{
    __shared__ float warps[32];
    float value = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        value += input[i];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < (blockDim.x + 31) / 32 ? warps[threadIdx.x] : 0.0f;
        value = warp_sum(value);
        if (threadIdx.x == 0)
            atomicAdd(sum, value);
    }
}

// The tree in shared memory of every introduction to CUDA; the maximum, so that order is no matter.
extern "C" __global__ void maximum(const int *input, int *blocks)
{
    extern __shared__ int values[];
    int thread = threadIdx.x;
    values[thread] = input[blockIdx.x * blockDim.x + thread];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (thread < half)
            values[thread] = max(values[thread], values[thread + half]);
        __syncthreads();
    }
    if (thread == 0)
        blocks[blockIdx.x] = values[0];
}
