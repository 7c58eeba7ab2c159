// Threads of a warp that go different ways: loops of different lengths, a switch, early exits.
// nvcc -ptx -arch=sm_80, release 13.0, V13.0.88

extern "C" __global__ void collatz(const unsigned *input, unsigned *steps, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned long long n = input[i];
    unsigned taken = 0;
    while (n != 1) {
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
        ++taken;
    }
    steps[i] = taken;
}

// A little machine: each thread runs its own program of eight operations.
extern "C" __global__ void machine(const unsigned char *programs, int *results)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stack[8];
    int top = 0;
    stack[0] = i;
    for (int step = 0; step < 8; ++step) {
        switch (programs[i * 8 + step]) {
        case 0: stack[top] += 3; break;
        case 1: stack[top] *= 5; break;
        case 2: if (top < 7) { stack[top + 1] = stack[top]; ++top; } break;
        case 3: if (top > 0) { stack[top - 1] -= stack[top]; --top; } break;
        case 4: stack[top] ^= step; break;
        case 5: stack[top] = stack[top] / 3; break;
        case 6: stack[top] = stack[top] >> 1; break;
        case 7: stack[top] = -stack[top]; break;
        case 8: step = 8; break;
        default: stack[top] %= 100; break;
        }
    }
    results[i] = stack[top];
}
