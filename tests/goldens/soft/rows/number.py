"""Floats as exact values: bits to fractions and back with one rounding. No float arithmetic of the host is used.

A value is (sign, magnitude): the magnitude a Fraction, or "inf", or "nan", or "snan"; the sign 0 or 1.
"""
from fractions import Fraction


# How sums are rounded (0 nearest even, 1 up, 2 down, 3 toward zero) and whether denormals are flushed, for singles, and for halves
# and doubles: the fields of MODE.
ROUND = {32: 0, 64: 0}
FLUSH = {32: False, 64: False}


class Format:
    """An IEEE-like format. `finite`: no infinities, and only the largest code is NaN (fp8 e4m3)."""

    def __init__(self, exponent, mantissa, finite=False):
        self.exponent, self.mantissa, self.finite = exponent, mantissa, finite
        self.bias = (1 << exponent - 1) - 1
        self.bits = 1 + exponent + mantissa
        self.top = (1 << exponent) - 1
        self.quiet = self.top << mantissa | 1 << mantissa - 1
        self.field = {16: 64, 64: 64, 32: 32}.get(self.bits) if exponent != 8 or mantissa == 23 else None
        self.infinity = self.top << mantissa

    def decode(self, bits):
        sign = bits >> self.bits - 1 & 1
        field = bits >> self.mantissa & self.top
        fraction = bits & (1 << self.mantissa) - 1
        if self.finite:
            if field == self.top and fraction == (1 << self.mantissa) - 1:
                return sign, "nan"
        elif field == self.top:
            if not fraction:
                return sign, "inf"
            return sign, "nan" if fraction >> self.mantissa - 1 else "snan"
        if field == 0:
            if FLUSH.get(self.field):
                return sign, Fraction(0)
            return sign, Fraction(fraction) * power(1 - self.bias - self.mantissa)
        return sign, Fraction(fraction + (1 << self.mantissa)) * power(field - self.bias - self.mantissa)

    def encode(self, value, toward_zero=False):
        sign, magnitude = value
        high = sign << self.bits - 1
        if magnitude in ("nan", "snan"):
            return high | ((1 << self.bits - 1) - 1 if self.finite else self.quiet)
        if magnitude == "inf":
            return high | ((1 << self.bits - 1) - 1 if self.finite else self.infinity)
        if magnitude == 0:
            return high
        lowest = 1 - self.bias
        unit = max(floor_log2(magnitude), lowest) - self.mantissa
        scaled = magnitude / power(unit)
        count = scaled.numerator // scaled.denominator
        rest = scaled - count
        mode = 3 if toward_zero else ROUND.get(self.field, 0)
        if mode == 0:
            count += int(rest > Fraction(1, 2) or rest == Fraction(1, 2) and count & 1)
        elif mode != 3 and rest:
            count += int((mode == 2) == bool(sign))
        if count >> self.mantissa + 1:
            count >>= 1
            unit += 1
        field = unit + self.mantissa + self.bias if count >> self.mantissa else 0
        code = field << self.mantissa | count & (1 << self.mantissa) - 1
        limit = (1 << self.bits - 1) - 2 if self.finite else self.infinity - 1
        if code > limit:
            away = mode == 0 or mode != 3 and (mode == 2) == bool(sign)
            code = limit + 1 if away else limit
        if code < 1 << self.mantissa and FLUSH.get(self.field):
            code = 0
        return high | code

    def largest(self, sign=0):
        return self.decode(sign << self.bits - 1 | self.infinity - 1)


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
FP8, BF8 = Format(4, 3, finite=True), Format(5, 2)
NAN, INF, MINUS_INF, ZERO, MINUS_ZERO, ONE = (0, "nan"), (0, "inf"), (1, "inf"), (0, Fraction(0)), (1, Fraction(0)), (0, Fraction(1))


def power(exponent):
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(magnitude):
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if magnitude >= power(guess) else guess - 1


def is_nan(x):
    return x[1] in ("nan", "snan")


def is_inf(x):
    return x[1] == "inf"


def is_zero(x):
    return x[1] == 0


def finite(x):
    return not is_nan(x) and not is_inf(x)


def exact(x):
    """The signed fraction of a finite value."""
    return -x[1] if x[0] else x[1]


def of(fraction, zero_sign=0):
    fraction = Fraction(fraction)
    return (int(fraction < 0) if fraction else zero_sign, abs(fraction))


def negate(x):
    return (1 - x[0], x[1])


def absolute(x):
    return (0, x[1])


def mul(a, b):
    sign = a[0] ^ b[0]
    if is_nan(a) or is_nan(b) or is_inf(a) and is_zero(b) or is_zero(a) and is_inf(b):
        return NAN
    if is_inf(a) or is_inf(b):
        return sign, "inf"
    return sign, a[1] * b[1]


def add(a, b):
    if is_nan(a) or is_nan(b) or is_inf(a) and is_inf(b) and a[0] != b[0]:
        return NAN
    if is_inf(a) or is_inf(b):
        return a if is_inf(a) else b
    # A sum that cancels is a positive zero, rounded down a negative one.
    cancelled = int(ROUND[32] == 2)
    same = is_zero(a) and is_zero(b) and a[0] == b[0]
    return of(exact(a) + exact(b), a[0] if same else cancelled)


def sub(a, b):
    return add(a, negate(b))


def fma(a, b, c):
    return add(mul(a, b), c)


def less(a, b):
    """Ordered less-than of anything but NaN, minus zero equal to zero."""
    order = lambda x: (1 if not x[0] else -1, Fraction(0)) if is_inf(x) else (0, exact(x))
    return order(a) < order(b)


def equal(a, b):
    return not less(a, b) and not less(b, a)


def before(a, b):
    """Less-than with minus zero before zero."""
    return less(a, b) or is_zero(a) and is_zero(b) and a[0] == 1 and b[0] == 0


def to_integral(x, mode):
    """Rounded to an integer: trunc, floor, ceil or even. Zero results keep the sign."""
    if not finite(x):
        return (x[0], "nan") if is_nan(x) else x
    value = exact(x)
    low = value.numerator // value.denominator
    rest = value - low
    if mode == "floor" or rest == 0:
        whole = low
    elif mode == "ceil":
        whole = low + 1
    elif mode == "trunc":
        whole = low if value > 0 else low + 1
    else:
        whole = low + int(rest > Fraction(1, 2) or rest == Fraction(1, 2) and low & 1)
    return of(whole, x[0])


def to_int(x, bits, signed):
    """Truncated and saturated; NaN is 0."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if is_nan(x):
        return 0
    if is_inf(x):
        return (low if x[0] else high) & (1 << bits) - 1
    whole = exact(to_integral(x, "trunc")).numerator
    return max(low, min(high, whole)) & (1 << bits) - 1


def root(fraction, bits=200):
    """Square root to `bits` bits with the last one sticky: enough for one correct rounding afterwards."""
    shift = 2 * bits + 2 * max(0, -floor_log2(fraction))
    scaled = fraction * power(shift)
    number = scaled.numerator // scaled.denominator
    from math import isqrt
    whole = isqrt(number)
    sticky = whole * whole != number or scaled.denominator != 1
    return Fraction(2 * whole + sticky, 2) * power(-shift // 2)


def sqrt(x):
    if is_nan(x) or is_zero(x):
        return x
    if x[0]:
        return NAN
    return x if is_inf(x) else (0, root(x[1]))


def rcp(x):
    if is_nan(x):
        return x
    if is_inf(x):
        return x[0], Fraction(0)
    return (x[0], "inf") if is_zero(x) else (x[0], 1 / x[1])


def rsq(x):
    if is_nan(x):
        return x
    if is_zero(x):
        return x[0], "inf"
    if x[0]:
        return NAN
    return ZERO if is_inf(x) else (0, 1 / root(x[1]))


# Transcendental functions on a fixed point of BITS bits: series of integers.
BITS = 400
UNIT = 1 << BITS


def fixed(fraction):
    return fraction.numerator * UNIT // fraction.denominator


def arctan_inverse(n, unit=UNIT):
    total, term, k = 0, unit // n, 0
    while term:
        total += (-term if k & 1 else term) // (2 * k + 1)
        term //= n * n
        k += 1
    return total


# Enough for 1,201 bits of 2/pi.
UNIT_WIDE = 1 << 1600
PI_WIDE = 4 * (4 * arctan_inverse(5, UNIT_WIDE) - arctan_inverse(239, UNIT_WIDE))
PI = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


def artanh(x):
    """Of a small fixed-point number."""
    total, term, square, k = 0, x, x * x >> BITS, 0
    while term:
        total += term // (2 * k + 1)
        term = term * square >> BITS
        k += 1
    return total


LN2 = 2 * artanh(UNIT // 3)


def exp(x):
    total, term, k = 0, UNIT, 1
    while term:
        total += term
        term = (term * x >> BITS) // k
        k += 1
    return total


def exp2(x):
    if is_nan(x):
        return x
    if is_inf(x):
        return ZERO if x[0] else x
    value = exact(x)
    whole = value.numerator // value.denominator
    if whole > 5000 or whole < -5000:
        return ZERO if x[0] else INF
    part = fixed(value - whole)
    return 0, Fraction(exp(part * LN2 >> BITS), UNIT) * power(whole) if part else power(whole)


def log2(x):
    if is_nan(x):
        return x
    if is_zero(x):
        return MINUS_INF
    if x[0]:
        return NAN
    if is_inf(x):
        return x
    whole = floor_log2(x[1])
    part = x[1] / power(whole)
    if part == 1:
        return of(whole)
    natural = 2 * artanh(fixed((part - 1) / (part + 1)))
    return of(whole + Fraction(natural, LN2))


def circular(x, cosine):
    """Sine or cosine of x turns."""
    if not finite(x):
        return NAN
    turn = x[1] - x[1].numerator // x[1].denominator
    quarter = turn * 4
    if quarter.denominator == 1:
        value = [[0, 1, 0, -1], [1, 0, -1, 0]][cosine][quarter.numerator % 4]
        sign = x[0] if not cosine else 0
        return of(Fraction(-value if sign else value), sign)
    angle = fixed(turn) * 2 * PI >> BITS
    total, term, k = 0, angle if not cosine else UNIT, 1 if not cosine else 0
    square = angle * angle >> BITS
    while term:
        total += term
        term = -(term * square >> BITS) // ((k + 1) * (k + 2))
        if term == -1:
            break
        k += 2
    value = Fraction(total, UNIT)
    return of(-value if x[0] and not cosine else value)


def frexp(x):
    """(exponent, significand in [0.5, 1)); 0 and the value itself for zero, infinity and NaN."""
    if not finite(x) or is_zero(x):
        return 0, x
    exponent = floor_log2(x[1]) + 1
    return exponent, (x[0], x[1] / power(exponent))


def ldexp(x, exponent):
    if not finite(x) or is_zero(x):
        return x
    return x[0], x[1] * power(max(-5000, min(5000, exponent)))


FORMATS_BY_KIND = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
