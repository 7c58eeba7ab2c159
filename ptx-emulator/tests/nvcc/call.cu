// Device functions that are called, with a structure by value, and by themselves.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

struct Pair {
    double low;
    int rest[3];
};

__noinline__ __device__ Pair swapped(Pair pair, int by)
{
    Pair result;
    result.low = pair.low * by;
    result.rest[0] = pair.rest[2];
    result.rest[1] = pair.rest[1] + by;
    result.rest[2] = pair.rest[0];
    return result;
}

__noinline__ __device__ unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void calls(const Pair *input, Pair *output, unsigned *numbers)
{
    int i = threadIdx.x;
    output[i] = swapped(input[i], i);
    numbers[i] = fibonacci(i % 10);
}
