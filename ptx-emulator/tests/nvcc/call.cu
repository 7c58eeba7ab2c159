// Device functions that are called: by value, through a pointer in a table, and by themselves.
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

__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__device__ int negative(int x) { return -x; }

typedef int (*Function)(int);
__device__ Function const table[3] = { twice, square, negative };

extern "C" __global__ void calls(const Pair *input, Pair *output, unsigned *numbers)
{
    int i = threadIdx.x;
    output[i] = swapped(input[i], i);
    numbers[i] = fibonacci(i % 10);
}

extern "C" __global__ void indirect(const int *which, int *values)
{
    int i = threadIdx.x;
    values[i] = table[which[i]](values[i]);
}
