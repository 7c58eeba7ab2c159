// An assertion, which calls a function that the driver provides.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

#include <cassert>

extern "C" __global__ void assertion(const int *input, int *output)
{
    int i = threadIdx.x;
    assert(input[i] >= 0);
    output[i] = 2 * input[i];
}
