// Prefix sums of each block's piece by shuffles, and a count by votes.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

__device__ unsigned warp_scan(unsigned value, int lane)
{
    for (int offset = 1; offset < 32; offset *= 2) {
        unsigned below = __shfl_up_sync(0xffffffff, value, offset);
        if (lane >= offset)
            value += below;
    }
    return value;
}

extern "C" __global__ void scan(const unsigned *input, unsigned *output, int count)
{
    __shared__ unsigned totals[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned value = warp_scan(i < count ? input[i] : 0, lane);
    if (lane == 31)
        totals[warp] = value;
    __syncthreads();
    if (warp == 0)
        totals[lane] = warp_scan(lane < (int)blockDim.x / 32 ? totals[lane] : 0, lane);
    __syncthreads();
    if (warp > 0)
        value += totals[warp - 1];
    if (i < count)
        output[i] = value;
}

// Keeps the odd numbers of a warp's 32 in order, and says how many they are.
extern "C" __global__ void compact(const unsigned *input, unsigned *output, unsigned *counts)
{
    int lane = threadIdx.x & 31, warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    unsigned value = input[warp * 32 + lane];
    unsigned kept = __ballot_sync(0xffffffff, value & 1);
    if (value & 1)
        output[warp * 32 + __popc(kept & ((1u << lane) - 1))] = value;
    if (lane == 0)
        counts[warp] = __popc(kept);
}
