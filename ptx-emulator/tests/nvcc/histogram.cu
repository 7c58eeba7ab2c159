// A histogram of bytes: atomics on shared memory, then on global memory.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

extern "C" __global__ void histogram(const unsigned char *input, unsigned *bins, int count)
{
    __shared__ unsigned local[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        local[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&local[input[i]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        if (local[bin] != 0)
            atomicAdd(&bins[bin], local[bin]);
}

// Other atomics: extrema, bits, exchange, and a product by compare and swap.
extern "C" __global__ void atomics(const int *input, int *extrema, unsigned *bits,
                                   unsigned long long *sum, unsigned *product)
{
    int value = input[blockIdx.x * blockDim.x + threadIdx.x];
    atomicMin(&extrema[0], value);
    atomicMax(&extrema[1], value);
    atomicAnd(&bits[0], value);
    atomicOr(&bits[1], value);
    atomicXor(&bits[2], value);
    atomicInc(&bits[3], 6);
    atomicDec(&bits[4], 9);
    atomicExch(&bits[5], 77);
    atomicAdd(sum, (unsigned long long)(long long)value);
    // A plain read beside other threads' atomics is a data race, and the emulator says so.
    unsigned seen = *(volatile unsigned *)product, expected;
    do {
        expected = seen;
        seen = atomicCAS(product, expected, expected * (unsigned)(value | 1));
    } while (seen != expected);
}
