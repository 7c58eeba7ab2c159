// y = a x + y in half precision, two at a time; and conversions between the formats.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half_axpy(__half a, const __half2 *x, __half2 *y, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs)
        y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

extern "C" __global__ void half_sums(const __half *x, const __half *y, __half *sums, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sums[i] = __hgt(x[i], y[i]) ? x[i] + y[i] : x[i] - y[i] * __float2half(2.0f);
}

extern "C" __global__ void to_bfloat16(const float *input, __nv_bfloat16 *output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        output[i] = __float2bfloat16(input[i]);
}
