// The softmax of each row, one block a row; and a few functions of the mathematics library.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

extern "C" __global__ void softmax(const float *input, float *output, int columns)
{
    __shared__ float shared[32];
    const float *in = input + (size_t)blockIdx.x * columns;
    float *out = output + (size_t)blockIdx.x * columns;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

    float largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        largest = fmaxf(largest, in[i]);
    for (int mask = 16; mask > 0; mask /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, mask));
    if (lane == 0)
        shared[warp] = largest;
    __syncthreads();
    for (int i = 0; i < warps; ++i)
        largest = fmaxf(largest, shared[i]);
    __syncthreads();

    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += expf(in[i] - largest);
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (lane == 0)
        shared[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < warps; ++i)
        sum += shared[i];

    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[i] = expf(in[i] - largest) / sum;
}

extern "C" __global__ void functions(const float *input, float *output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = input[i];
    output[0 * count + i] = sqrtf(x);
    output[1 * count + i] = rsqrtf(x);
    output[2 * count + i] = logf(x);
    output[3 * count + i] = sinf(x);
    output[4 * count + i] = floorf(x) + truncf(-x) + rintf(x);
    output[5 * count + i] = powf(x, 1.5f);
    output[6 * count + i] = tanhf(x);
}
