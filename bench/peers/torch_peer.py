"""torch.matmul (torch._int_mm for i8, torch._scaled_mm for f8) and a Triton product as peers of the benchmark harness.

The harness starts this program and talks to it in lines of JSON: a request on standard input, one
answer on standard output. Operands and results travel as files. Times are those between two CUDA
events, behind a short busy wait, so that the host's part does not count; operands rotate through
copies that outgrow the L2 cache. The harness does the same for its own kernels.
"""

import json
import sys


def fail(message):
    print(json.dumps({"missing": message}), flush=True)
    sys.exit(0)


try:
    import numpy
    import torch
except ImportError as error:
    fail(str(error))
if not torch.cuda.is_available():
    fail("torch sees no CUDA device")
try:
    import triton
    import triton.language as tl
except ImportError as error:
    triton = None
    triton_missing = str(error)

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i8": torch.int8,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
NUMPY = {
    "f16": "u2", "bf16": "u2", "f32": "u4", "f64": "u8", "i32": "i4", "i8": "i1", "f8e4m3": "u1",
    "f8e5m2": "u1",
}
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
VIEW = {"u2": torch.int16, "u4": torch.int32, "u8": torch.int64, "i4": torch.int32}
# A busy wait of some 100 microseconds for a run: longer than Python takes to enqueue it.
HOLD_CYCLES, HOLD_MS = 200_000, 0.1
L2_FOLD = 40

if triton:

    @triton.jit
    def matmul_kernel(
        a_ptr, b_ptr, c_ptr, m, n, k, alpha, beta,
        a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row, c_col,
        READS_C: tl.constexpr, PRECISION: tl.constexpr, WHOLE: tl.constexpr,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    ):
        """One block of C: blocks that run together lie in bands of GROUP rows of blocks."""
        index = tl.program_id(0)
        batch = tl.program_id(1).to(tl.int64)
        blocks_m = tl.cdiv(m, BLOCK_M)
        blocks_n = tl.cdiv(n, BLOCK_N)
        band = index // (GROUP * blocks_n)
        band_rows = min(blocks_m - band * GROUP, GROUP)
        within = index - band * GROUP * blocks_n
        block_m = band * GROUP + within % band_rows
        block_n = within // band_rows

        rows = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
        # Rows and columns beyond the matrix wrap around; their results are never stored.
        safe_rows = (rows % m).to(tl.int64)
        safe_cols = (cols % n).to(tl.int64)
        terms = tl.arange(0, BLOCK_K)
        a = a_ptr + batch * a_batch + safe_rows[:, None] * a_row + terms[None, :] * a_col
        b = b_ptr + batch * b_batch + terms[:, None] * b_row + safe_cols[None, :] * b_col
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if WHOLE else tl.float32)
        for start in range(0, k, BLOCK_K):
            left = k - start
            a_tile = tl.load(a, mask=terms[None, :] < left, other=0.0)
            b_tile = tl.load(b, mask=terms[:, None] < left, other=0.0)
            if PRECISION is not None:
                sums = tl.dot(a_tile, b_tile, sums, input_precision=PRECISION)
            elif WHOLE:
                sums = tl.dot(a_tile, b_tile, sums, out_dtype=tl.int32)
            else:
                sums = tl.dot(a_tile, b_tile, sums)
            a += BLOCK_K * a_col
            b += BLOCK_K * b_row
        inside = (rows[:, None] < m) & (cols[None, :] < n)
        c = c_ptr + batch * c_batch + rows.to(tl.int64)[:, None] * c_row + cols[None, :] * c_col
        if not WHOLE:
            sums = sums * alpha
        if READS_C:
            sums += beta * tl.load(c, mask=inside, other=0.0).to(tl.float32)
        tl.store(c, sums.to(c_ptr.dtype.element_ty), mask=inside)

    # (BLOCK_M, BLOCK_N, BLOCK_K, GROUP, stages, warps)
    TILES_16_BIT = [
        (128, 256, 64, 8, 3, 8),
        (128, 128, 64, 8, 4, 4),
        (64, 64, 64, 8, 4, 4),
        (16, 64, 128, 1, 5, 4),
    ]
    TILES_8_BIT = [
        (128, 256, 128, 8, 3, 8),
        (128, 128, 128, 8, 4, 4),
        (128, 128, 128, 8, 4, 8),
        (64, 64, 128, 8, 4, 4),
    ]
    TILES_F32 = [(64, 64, 16, 8, 3, 4), (128, 64, 16, 8, 3, 8), (16, 32, 64, 1, 4, 2)]
    # Of f32 as sums of three bf16.
    TILES_SPLIT = [
        (128, 256, 32, 8, 3, 8),
        (128, 128, 32, 8, 3, 8),
        (128, 128, 32, 8, 3, 4),
        (128, 64, 32, 8, 3, 4),
        (64, 64, 32, 8, 4, 4),
    ]


class Case:
    """One problem, its operands in several copies, and who computes it."""

    def __init__(self, request):
        self.request = request
        self.dtype = TORCH[request["dtype"]]
        self.dtypes = {"a": request["dtype"], "b": request["dtype"], "c": request["output"]}
        # Elements from one copy to the next: copies start where the allocator's would.
        names = ("a", "b", "c")
        flat = {name: self.read(request[name], self.dtypes[name]) for name in names}
        self.c_elems = flat["c"].numel()
        self.c_initial = flat["c"].clone()
        strides = {name: -(-flat[name].numel() // 256) * 256 for name in names}
        size = sum(strides[name] * flat[name].element_size() for name in names)
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        free, _ = torch.cuda.mem_get_info()
        copies = min(-(-L2_FOLD * l2 // size) + 1, free // 2 // size)
        self.copies = max(copies, 1)
        slabs = {}
        for name in names:
            slab = torch.empty(self.copies, strides[name], dtype=flat[name].dtype, device="cuda")
            slab[:, : flat[name].numel()] = flat[name]
            slabs[name] = slab
        self.slabs = slabs
        self.turn = 0
        self.views = [self.view(copy) for copy in range(self.copies)]
        self.runs = {}
        # The least time of a run so far, in milliseconds, by the function that runs it.
        self.least_ms = {}
        self.notes = {}

    def read(self, path, dtype):
        kind = NUMPY[dtype]
        bits = torch.from_numpy(numpy.fromfile(path, dtype=kind).view("i" + kind[1]))
        return bits.cuda().view(TORCH[dtype])

    def view(self, copy):
        """op(A), op(B) and C of a copy: batch x rows x columns."""
        request = self.request
        m, n, k, batch = (request[name] for name in ("m", "n", "k", "batch"))
        stored = {
            "a": (k, m) if request["layout"][0] == "t" else (m, k),
            "b": (n, k) if request["layout"][1] == "t" else (k, n),
            "c": (m, n),
        }
        views = []
        for name, (rows, cols) in stored.items():
            ld = request["ld" + name]
            slab = self.slabs[name][copy]
            matrix = slab.as_strided((batch, rows, cols), (rows * ld, ld, 1))
            transposed = name != "c" and request["layout"]["ab".index(name)] == "t"
            matrix = matrix.transpose(1, 2) if transposed else matrix
            views.append(matrix if batch > 1 else matrix[0])
        return views

    def torch_run(self, a, b, c):
        alpha, beta = self.request["alpha"], self.request["beta"]
        if self.dtype == torch.int8:
            try:
                torch._int_mm(a, b, out=c)
            except RuntimeError as error:
                # It asks for more than 16 rows and for multiples of 8.
                raise NotImplementedError(str(error).splitlines()[0]) from error
        elif self.dtype in FP8:
            one = self.one
            torch._scaled_mm(
                a, b, scale_a=one, scale_b=one, out_dtype=c.dtype, use_fast_accum=True, out=c
            )
        elif beta is None and alpha == 1:
            torch.matmul(a, b, out=c)
        else:
            add = torch.addmm if c.dim() == 2 else torch.baddbmm
            # Without a beta, C takes no part: torch ignores it where beta is 0.
            add(c, a, b, beta=beta or 0, alpha=alpha, out=c)

    def triton_run(self, a, b, c, tile):
        m, n, k, batch = (self.request[name] for name in ("m", "n", "k", "batch"))
        block_m, block_n, block_k, group, stages, warps = tile
        a, b, c = (x if batch > 1 else x.unsqueeze(0) for x in (a, b, c))
        beta = self.request["beta"]
        grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n), batch)
        matmul_kernel[grid](
            a, b, c, m, n, k, float(self.request["alpha"]), float(beta or 0),
            *a.stride(), *b.stride(), *c.stride(),
            READS_C=beta is not None, PRECISION=self.precision(),
            WHOLE=self.dtype == torch.int8,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=group,
            num_stages=stages, num_warps=warps,
        )

    def precision(self):
        """How Triton multiplies f32: exactly, or as sums of three bf16, which torch has not."""
        how = {"f32": "ieee", "bf16x6": "bf16x6"}
        return how.get(self.request["precision"])

    def is_plain(self):
        """Whether neither alpha nor C takes part."""
        return self.request["alpha"] == 1 and self.request["beta"] is None

    def candidate(self, name):
        """The function that computes the product on (a, b, c); why there is none, as an error."""
        if name in self.runs:
            return self.runs[name]
        dtype = self.request["dtype"]
        if name == "torch":
            if dtype == "i32":
                raise NotImplementedError("torch.matmul has no int32 product on CUDA")
            if dtype == "i8" and not (self.is_plain() and self.request["batch"] == 1):
                raise NotImplementedError("torch._int_mm takes single plain products alone")
            if self.dtype in FP8:
                if not (self.is_plain() and self.request["batch"] == 1):
                    raise NotImplementedError("torch._scaled_mm is asked for plain products alone")
                if dtype == "f8e5m2" or self.request["layout"] != "nt":
                    raise NotImplementedError("torch._scaled_mm takes e4m3 in layout nt")
                self.one = torch.ones((), device="cuda")
            if self.precision() == "bf16x6":
                self.notes["torch"] = "in f32"
            self.runs[name] = self.torch_run
        else:
            if not triton:
                raise ModuleNotFoundError(triton_missing)
            if dtype == "i8" and not self.is_plain():
                raise NotImplementedError("the Triton kernel takes plain products of i8 alone")
            if dtype not in ("f16", "bf16", "f32", "i8"):
                raise NotImplementedError(f"the Triton kernel has no {dtype}")
            if self.request["batch"] > 65535:
                raise NotImplementedError("more products than a grid has along y")
            self.runs[name] = self.tuned()
        return self.runs[name]

    def tuned(self):
        """The Triton kernel with the fastest of its tiles."""
        tiles = {"f32": TILES_F32, "bf16x6": TILES_SPLIT, "i8": TILES_8_BIT}
        tiles = tiles.get(self.request["precision"], TILES_16_BIT)
        best = None
        for tile in tiles:
            run = lambda a, b, c, tile=tile: self.triton_run(a, b, c, tile)
            try:
                self.sample(run, 1)
            except triton.runtime.errors.OutOfResources as error:
                too_large = error
                continue
            ms = min(self.sample(run, 1) for _ in range(5))
            if best is None or ms < best[0]:
                best = (ms, tile, run)
        if best is None:
            raise NotImplementedError(f"no tile fits this GPU: {too_large}")
        self.notes["triton"] = "tile %dx%dx%d, group %d, stages %d, warps %d" % best[1]
        return best[2]

    def sample(self, run, runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # While a run computes the next is enqueued, so that the GPU needs to be held for no more
        # than what the host is behind by at the end.
        behind = max(0, 1 - self.least_ms.get(run, 0) / HOLD_MS)
        torch.cuda._sleep(int(HOLD_CYCLES * (runs * behind + 3)))
        # The first is not timed, as in GpuWork::sample.
        for number in range(runs + 1):
            if number == 1:
                start.record()
            run(*self.views[self.turn])
            self.turn = (self.turn + 1) % self.copies
        end.record()
        end.synchronize()
        ms = start.elapsed_time(end)
        self.least_ms[run] = min(self.least_ms.get(run, ms), ms / runs)
        return ms

    def product(self, name, path):
        run = self.candidate(name)  # tuning, if any, leaves its results in C
        self.slabs["c"][0, : self.c_elems] = self.c_initial
        run(*self.views[0])
        torch.cuda.synchronize()
        kind = NUMPY[self.dtypes["c"]]
        bits = self.slabs["c"][0, : self.c_elems].view(VIEW[kind])
        bits.cpu().numpy().tofile(path)
        return self.notes.get(name, "")


def answer(request, state):
    operation = request["op"]
    if operation == "hello":
        torch.cuda.set_device(request["device"])
        versions = {"torch": torch.__version__}
        if triton:
            versions["triton"] = triton.__version__
        else:
            versions["triton_missing"] = triton_missing
        return versions
    if operation == "case":
        state["case"] = None
        torch.cuda.empty_cache()
        state["case"] = Case(request)
        return {}
    if operation == "product":
        return {"note": state["case"].product(request["candidate"], request["out"])}
    if operation == "sample":
        case = state["case"]
        return {"ms": case.sample(case.candidate(request["candidate"]), request["runs"])}
    if operation == "drop":
        state["case"] = None
        torch.cuda.empty_cache()
        return {}
    raise ValueError(f"no operation {operation!r}")


def main():
    state = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), state)
        except NotImplementedError as error:
            reply = {"unsupported": str(error)}
        except Exception as error:  # the harness records it and goes on
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


main()
