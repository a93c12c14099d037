"""tinygrad's own AMD runtime on the GPU that the preloaded library shows: add, matmul and softmax, checked here.

Every result is compared with double precision arithmetic of this file, not of tinygrad. Prints one line per operation;
the exit status is 0 if all are right.
"""
import math
import random
import sys

from tinygrad import Device, Tensor, dtypes

random.seed(7)


def numbers(count):
    # Multiples of 1/64 are exact in half precision, so only the operation itself can err.
    return [random.randint(-64, 64) / 64 for _ in range(count)]


def tensor(values, shape, dtype=dtypes.float32):
    return Tensor(values, device="AMD", dtype=dtype).reshape(shape).realize()


def judge(name, got, expected, tolerance):
    error = max(abs(one - other) for one, other in zip(got, expected, strict=True))
    print(f"{Device['AMD'].arch} {name}: {len(expected)} results, largest error {error:.2e}", flush=True)
    if not error <= tolerance:
        sys.exit(f"{name}: more than {tolerance:.0e}")


def flat(result):
    return result.flatten().tolist()


def add():
    a, b = numbers(1000), numbers(1000)
    judge("add", flat(tensor(a, (1000,)) + tensor(b, (1000,))), [x + y for x, y in zip(a, b)], 0)


def matmul(name, size, kind, tolerance, **options):
    a, b = numbers(size * size), numbers(size * size)
    product = tensor(a, (size, size), kind).matmul(tensor(b, (size, size), kind), **options)
    cells = [(row, column) for row in range(size) for column in range(size)]
    exact = [sum(a[row * size + k] * b[k * size + column] for k in range(size)) for row, column in cells]
    judge(name, flat(product), exact, tolerance)


def softmax():
    rows, columns = 8, 100
    values = [4 * value for value in numbers(rows * columns)]
    expected = []
    for row in range(rows):
        part = values[row * columns : (row + 1) * columns]
        powers = [math.exp(value - max(part)) for value in part]
        expected += [power / sum(powers) for power in powers]
    judge("softmax", flat(tensor(values, (rows, columns)).softmax(axis=-1)), expected, 1e-6)


add()
matmul("matmul f32", 32, dtypes.float32, 1e-5)
matmul("matmul f16 with f32 sums", 64, dtypes.half, 1e-4, dtype=dtypes.float32)
softmax()
