// Device functions that are called through a pointer in a table.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__device__ int negative(int x) { return -x; }

typedef int (*Function)(int);
__device__ Function const table[3] = { twice, square, negative };

extern "C" __global__ void indirect(const int *which, int *values)
{
    int i = threadIdx.x;
    values[i] = table[which[i]](values[i]);
}
