#!/usr/bin/env python3
"""Real input: Gram and covariance matrices of scikit-learn's digits through the command, against NumPy.

The digits are 1797 images of 8 x 8 pixels with values from 0 to 16. The data and NumPy are those of this Python where it
has them; otherwise they come from PyPI into the cache folder. Each product is compared element by element within the bound
of docs/numerics.md, plus the same bound for NumPy's own sums.

    python3 tests/digits.py --gemmite target/release/gemmite --device cuda

Exit status: 0 all within the bounds, 1 a product is wrong or the command failed, 77 NumPy or the data cannot be had.
"""

import argparse
import gzip
import importlib.util
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

UNAVAILABLE = 77
DIGITS = "datasets/data/digits.csv.gz"


class Unavailable(Exception):
    """Something that PyPI would have had."""


def pip(*arguments):
    """Runs this Python's pip; its words are the exception's where it fails."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)} failed:\n{done.stderr.strip()}")


def import_numpy(cache):
    """NumPy of this Python, or from PyPI in the cache folder."""
    if importlib.util.find_spec("numpy") is None:
        target = cache / f"numpy-{sys.version_info.major}.{sys.version_info.minor}"
        if not (target / "numpy").is_dir():
            pip("install", "--only-binary", ":all:", "--target", str(target), "numpy")
        sys.path.insert(0, str(target))
        importlib.invalidate_caches()
    import numpy

    return numpy


def digits_file(cache):
    """The bytes of digits.csv.gz, of the installed scikit-learn or of its wheel."""
    installed = importlib.util.find_spec("sklearn")
    if installed is not None:
        return (Path(installed.origin).parent / DIGITS).read_bytes()
    folder = cache / "scikit-learn"
    if not list(folder.glob("*.whl")):
        pip("download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), "scikit-learn")
    wheel = sorted(folder.glob("*.whl"))[-1]
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"sklearn/{DIGITS}")


def gamma(roundings, unit):
    """Higham's bound on the relative error of so many roundings."""
    return roundings * unit / (1 - roundings * unit)


class Command:
    """The command and the folder of its files."""

    def __init__(self, np, arguments, folder):
        self.np, self.folder = np, folder
        self.program, self.device = arguments.gemmite, arguments.device
        self.failures = 0

    def matmul(self, a, b, *options):
        """What `gemmite matmul a b` writes."""
        paths = [str(self.folder / name) for name in ("a.npy", "b.npy", "c.npy")]
        self.np.save(paths[0], a)
        self.np.save(paths[1], b)
        command = [self.program, "matmul", paths[0], paths[1], *options, "--output", paths[2]]
        command += ["--force", "--verify", "--device", self.device]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return self.np.load(paths[2])

    def compare(self, name, found, expected, bound):
        """Counts and prints whether each element is within its bound; NaN never is."""
        np = self.np
        if found.shape != expected.shape:
            sys.exit(f"{name}: the shape is {found.shape} and not {expected.shape}")
        error = np.abs(found.astype(np.float64) - expected)
        right = error <= bound
        wrong = right.size - int(np.count_nonzero(right))
        self.failures += wrong > 0
        shape = "x".join(map(str, found.shape))
        ratio = np.max(np.divide(error, bound, out=np.zeros_like(error), where=bound > 0))
        verdict = f"{wrong} of {right.size} WRONG" if wrong else "within the bound"
        print(f"{name}, {found.dtype}, {shape}: {verdict}, largest error / bound {ratio:.2e}")


def products(np, command, pixels):
    """Gram, scatter and covariance matrices in each dtype."""
    samples, features = pixels.shape
    centred = pixels - pixels.mean(axis=0)
    for dtype in (np.float64, np.float32):
        unit, numpy_unit = np.finfo(dtype).eps / 2, np.finfo(np.float64).eps / 2

        def bound(left, right, k, alpha=1.0):
            magnitude = abs(alpha) * (np.abs(left) @ np.abs(right))
            roundings = k + (alpha != 1.0)
            # NumPy's own sums; what is added to k is for alpha and for the magnitude, in f64 too.
            return (gamma(roundings, unit) + gamma(k + 2, numpy_unit)) * magnitude

        # As the command gets them: rounded to the dtype.
        x = pixels.astype(dtype)
        y = centred.astype(dtype)
        x64, y64 = x.astype(np.float64), y.astype(np.float64)

        gram = command.matmul(x, x, "--transpose-b")
        command.compare("Gram matrix", gram, x64 @ x64.T, bound(x64, x64.T, features))
        scatter = command.matmul(x, x, "--transpose-a")
        command.compare("scatter matrix", scatter, x64.T @ x64, bound(x64.T, x64, samples))

        # alpha is rounded to the dtype of the sums.
        alpha = dtype(1 / (samples - 1))
        option = f"--alpha={alpha!s}"
        covariance = command.matmul(y, y, "--transpose-a", option)
        expected = float(alpha) * (y64.T @ y64)
        limit = bound(y64.T, y64, samples, float(alpha))
        command.compare("covariance", covariance, expected, limit)
        if dtype is np.float64:
            # np.cov centres the data itself; its means may differ by their own rounding.
            shift = gamma(samples, numpy_unit) * np.abs(pixels).mean(axis=0)
            spread = np.abs(y64).sum(axis=0)
            drift = np.outer(shift, spread) + np.outer(spread, shift)
            drift = (drift + samples * np.outer(shift, shift)) / (samples - 1)
            limit = limit + drift + 4 * numpy_unit * np.abs(expected)
            command.compare("covariance and np.cov", covariance, np.cov(pixels.T), limit)

    whole = pixels.astype(np.int32)
    gram = command.matmul(whole, whole, "--transpose-b")
    exact = (whole @ whole.T).astype(np.float64)
    command.compare("Gram matrix", gram, exact, np.zeros_like(exact))


def main():
    """Fetches what is missing, multiplies, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gemmite", required=True, help="the command's path")
    parser.add_argument("--device", default="best", help="as the command takes it: best, cpu, cuda")
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--cache", type=Path, default=root / "target" / "pypi", help="for downloads")
    arguments = parser.parse_args()
    try:
        np = import_numpy(arguments.cache)
        text = gzip.decompress(digits_file(arguments.cache)).decode()
    except Unavailable as missing:
        print(missing, file=sys.stderr)
        return UNAVAILABLE
    table = np.loadtxt(io.StringIO(text), delimiter=",")
    # The last column is the digit that the image shows.
    pixels = table[:, :-1]
    if pixels.shape != (1797, 64) or pixels.min() != 0 or pixels.max() != 16:
        sys.exit(f"these are not the digits: {pixels.shape}, {pixels.min()} to {pixels.max()}")
    with tempfile.TemporaryDirectory() as folder:
        command = Command(np, arguments, Path(folder))
        products(np, command, pixels)
    return 1 if command.failures else 0


if __name__ == "__main__":
    sys.exit(main())
