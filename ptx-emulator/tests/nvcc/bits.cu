// Integer intrinsics: counts, reversals, shifts of pairs, bytes, dot products, wide products.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

extern "C" __global__ void bits(const unsigned *a, const unsigned *b, unsigned *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned x = a[i], y = b[i];
    out[0 * count + i] = __clz(x);
    out[1 * count + i] = __ffs(x);
    out[2 * count + i] = __popc(x);
    out[3 * count + i] = __brev(x);
    out[4 * count + i] = __funnelshift_l(x, y, y & 31);
    out[5 * count + i] = __byte_perm(x, y, 0x3175);
    out[6 * count + i] = __dp4a((int)x, (int)y, 17);
    out[7 * count + i] = __umulhi(x, y);
    out[8 * count + i] = __vadd4(x, y);
    out[9 * count + i] = __usad(x, y, 1000);
    out[10 * count + i] = (x & y) ^ (~x | 0x0f0f0f0f);
    out[11 * count + i] = (x >> (y & 7)) & ((1u << (y & 15)) - 1);
    out[12 * count + i] = (unsigned)((int)x >> (y & 31));
    out[13 * count + i] = __uhadd(x, y);
}

extern "C" __global__ void wide(const long long *a, const long long *b, long long *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    long long x = a[i], y = b[i];
    out[0 * count + i] = x * y;
    out[1 * count + i] = x / y;
    out[2 * count + i] = x % y;
    out[3 * count + i] = (long long)((unsigned long long)x / (unsigned long long)y);
    out[4 * count + i] = __mul64hi(x, y);
    out[5 * count + i] = __clzll(x);
    out[6 * count + i] = (long long)__brevll(x);
    out[7 * count + i] = x < y ? x : y;
    out[8 * count + i] = (long long)((double)x * 0.5);
    out[9 * count + i] = (long long)(float)y;
}

// 128 bits at once.
extern "C" __global__ void wider(const unsigned __int128 *a, const unsigned __int128 *b,
                                 unsigned __int128 *out)
{
    int i = threadIdx.x, count = blockDim.x;
    out[0 * count + i] = a[i] + b[i];
    out[1 * count + i] = a[i] - b[i];
    out[2 * count + i] = a[i] * b[i];
}

// The same by hand, word by word, as arithmetic of large numbers does it.
extern "C" __global__ void carries(const unsigned *a, const unsigned *b, unsigned *sums)
{
    int i = threadIdx.x;
    const unsigned *x = a + 4 * i, *y = b + 4 * i;
    unsigned s0, s1, s2, s3;
    asm("add.cc.u32 %0, %4, %8;\n\t"
        "addc.cc.u32 %1, %5, %9;\n\t"
        "addc.cc.u32 %2, %6, %10;\n\t"
        "addc.u32 %3, %7, %11;"
        : "=r"(s0), "=r"(s1), "=r"(s2), "=r"(s3)
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    unsigned *sum = sums + 4 * i;
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
}

// A difference of 64 bits, and a product of 64 bits added to 64 bits.
extern "C" __global__ void borrows(const uint2 *a, const uint2 *b, uint2 *out)
{
    int i = threadIdx.x, count = blockDim.x;
    uint2 x = a[i], y = b[i], difference, sum = y;
    asm("sub.cc.u32 %0, %2, %4;\n\t"
        "subc.u32 %1, %3, %5;"
        : "=r"(difference.x), "=r"(difference.y)
        : "r"(x.x), "r"(x.y), "r"(y.x), "r"(y.y));
    asm("mad.lo.cc.u32 %0, %2, %3, %0;\n\t"
        "madc.hi.u32 %1, %2, %3, %1;"
        : "+r"(sum.x), "+r"(sum.y)
        : "r"(x.x), "r"(x.y));
    out[i] = difference;
    out[count + i] = sum;
}
