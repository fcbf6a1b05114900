"""Calculates with decimals of 34 digits: reads lines `left operator right` from standard input and writes each result as
sign, digits and exponent, or as a word."""
import sys
from decimal import ROUND_HALF_EVEN, Context, Decimal

CONTEXT = Context(prec=34, Emin=-6143, Emax=6144, clamp=1, rounding=ROUND_HALF_EVEN, traps=[])
OPERATIONS = {"+": CONTEXT.add, "-": CONTEXT.subtract, "*": CONTEXT.multiply, "/": CONTEXT.divide}

for line in sys.stdin:
    left, operator, right = line.split()
    result = OPERATIONS[operator](CONTEXT.create_decimal(left), CONTEXT.create_decimal(right))
    if result.is_finite():
        sign, digits, exponent = result.as_tuple()
        print(sign, int("".join(map(str, digits))), exponent)
    else:
        print("nan" if result.is_nan() else "-inf" if result < 0 else "inf")
