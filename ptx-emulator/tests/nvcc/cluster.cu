// Blocks of a cluster read each other's shared memory (cooperative groups), and a barrier object.
// nvcc -ptx -arch=sm_90, release 13.0, V13.0.88

#include <cooperative_groups.h>
#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

namespace groups = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(const int *input, int *output)
{
    __shared__ int values[64];
    groups::cluster_group cluster = groups::this_cluster();
    int thread = threadIdx.x;
    values[thread] = input[blockIdx.x * 64 + thread];
    cluster.sync();
    int *next = cluster.map_shared_rank(values, (cluster.block_rank() + 1) % 4);
    output[blockIdx.x * 64 + thread] = next[63 - thread];
    cluster.sync();
}

extern "C" __global__ void arrivals(const int *input, int *output)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int values[64];
    int thread = threadIdx.x;
    if (thread == 0)
        init(&barrier, 64);
    __syncthreads();
    values[thread] = input[thread];
    auto token = barrier.arrive();
    int own = 3 * input[thread];
    barrier.wait(std::move(token));
    output[thread] = own + values[63 - thread];
}
