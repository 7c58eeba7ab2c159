// What the lanes of a warp tell each other: groups of equal values, votes, reductions, a broadcast.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

extern "C" __global__ void warp(const int *input, int *out)
{
    int i = threadIdx.x, count = blockDim.x;
    int value = input[i];
    out[0 * count + i] = __match_any_sync(0xffffffff, value);
    int all;
    out[1 * count + i] = __match_all_sync(0xffffffff, value < 100, &all);
    out[2 * count + i] = all;
    out[3 * count + i] = __any_sync(0xffffffff, value == 3) + 2 * __all_sync(0xffffffff, value < 9);
    out[4 * count + i] = __reduce_add_sync(0xffffffff, value);
    out[5 * count + i] = __reduce_max_sync(0xffffffff, value);
    out[6 * count + i] = __shfl_sync(0xffffffff, value, 5, 8);
    out[7 * count + i] = __syncthreads_count(value == 3);
    out[8 * count + i] = __syncthreads_or(value == 6);
    int kept = 0;
    if (value & 1) {
        unsigned active = __activemask();
        kept = __popc(active);
    }
    out[9 * count + i] = kept;
}
