"""Random documents of BSON, and a model of what an import makes of them (Spec/Export.md, section 4)."""
import datetime
import math
import struct
import uuid
from decimal import Decimal, localcontext
from fractions import Fraction

import bson
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from partitions import random_integer, random_text

EXACT_MAX = 2 ** 53
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
UNSUPPORTED = (Regex, MinKey, MaxKey, Timestamp, Code)


class Refused(Exception):
    """The field cannot take the value."""


class LeftOut(Exception):
    """The value is of a type that no field can hold."""


# ------------------------------------------------------------------ the model

class Model:
    """What an export has of documents that were imported in a form: canonical, relaxed, legacy or bson."""

    def __init__(self, classes, form):
        self.classes = classes
        self.form = form

    def fields(self, document, class_name):
        """The fields of an object; those that the document lacks, or that are left out, have their initial values."""
        result = {}
        for column in self.classes[class_name]["properties"]:
            try:
                result[column["name"]] = (self.field(document[column["name"]], column) if column["name"] in document
                                          else initial(column))
            except LeftOut:
                result[column["name"]] = initial(column)
        return result

    def field(self, value, column):
        element = {key: column[key] for key in column if key != "collection"}
        match column.get("collection"):
            case None:
                return self.single(value, element)
            case "dictionary":
                if value is None:
                    return {"dict": {}}
                if not isinstance(value, dict):
                    raise LeftOut if isinstance(value, UNSUPPORTED) else Refused
                if any(is_no_key(key) for key in value):
                    raise Refused
                return {"dict": {key: self.single(member, element) for key, member in value.items()}}
            case collection:
                if value is not None and not isinstance(value, list):
                    raise LeftOut if isinstance(value, UNSUPPORTED) else Refused
                return {collection: [self.single(member, element) for member in value or []]}

    def single(self, value, column):
        if isinstance(value, UNSUPPORTED):
            raise LeftOut
        target = column.get("target")
        if target is None:
            return self.mixed(value) if column["type"] == "mixed" else self.scalar(value, column)
        if value is None:
            if not column["nullable"]:
                raise Refused
            return None
        declared = self.classes[target]
        if declared["kind"] == "embedded":
            if not isinstance(value, dict) or any(key.startswith("$") for key in value):
                raise Refused
            return self.fields(value, target)
        if isinstance(value, DBRef):
            if value.collection != target:
                raise Refused
            value = value.id
        key = self.scalar(value, declared["key"])
        return {"link": [target, key]}

    def mixed(self, value):
        if isinstance(value, UNSUPPORTED):
            raise LeftOut
        if isinstance(value, list):
            return {"list": [self.mixed(member) for member in value]}
        if isinstance(value, DBRef):
            if value.collection not in self.classes:
                raise Refused
            return {"link": [value.collection, self.scalar(value.id, self.classes[value.collection]["key"])]}
        if isinstance(value, dict):
            if any(is_no_key(key) for key in value):
                raise Refused
            return {"dict": {key: self.mixed(member) for key, member in value.items()}}
        return self.scalar(value, {"type": type_of(value), "nullable": True})

    def scalar(self, value, column):
        if value is None:
            if not column["nullable"]:
                raise Refused
            return None
        wanted, found = column["type"], type_of(value)
        if wanted in NUMBERS and found in NUMBERS:
            return self.number(value, wanted)
        if wanted != found:
            raise Refused
        return TEXTS[found](value)

    def number(self, value, wanted):
        if isinstance(value, float) and value != value and self.form != "bson":
            # JSON has one NaN.
            value = math.nan
        is_bare = self.form in ("relaxed", "legacy") and not isinstance(value, Decimal128) and (
            isinstance(value, int) or math.isfinite(value))
        if wanted == type_of(value):
            return TEXTS[wanted](value)
        if wanted == "decimal" and (is_bare or isinstance(value, int)):
            return TEXTS["decimal"](Decimal128(repr(float(value)) if isinstance(value, float) else str(int(value))))
        exact = exactly(value)
        if isinstance(exact, float):
            if wanted == "int":
                raise Refused
            return TEXTS[wanted](Decimal128(str(exact)) if wanted == "decimal" else math.nan if exact != exact else exact)
        if wanted == "int":
            is_far = is_bare and isinstance(value, float) and abs(exact) > EXACT_MAX
            if exact.denominator > 1 or not -2 ** 63 <= exact < 2 ** 63 or is_far:
                raise Refused
            return TEXTS["int"](int(exact))
        return real(value, exact, wanted)


def real(value, exact, wanted):
    """A finite number as one that has a point, with its sign if it is a zero."""
    if wanted == "decimal":
        with localcontext(prec=2000):
            digits = (Decimal(exact.numerator) / exact.denominator).normalize()
        sign, coefficient, exponent = digits.as_tuple()
        if len(coefficient) > 34 or not -6176 <= exponent <= 6111:
            raise Refused
        is_negative = isinstance(value, float) and math.copysign(1, value) < 0
        return TEXTS["decimal"](Decimal128("-0" if exact == 0 and is_negative else digits))
    try:
        nearest = float(exact) if wanted == "double" else struct.unpack("<f", struct.pack("<f", float(exact)))[0]
    except OverflowError:
        raise Refused from None
    if Fraction(nearest) != exact:
        raise Refused
    return TEXTS[wanted](-0.0 if exact == 0 and is_negative_zero(value) else nearest)


def is_negative_zero(value):
    return value.to_decimal().is_signed() if isinstance(value, Decimal128) else math.copysign(1, value) < 0


def exactly(value):
    """A number as a fraction; infinities and NaN as a float."""
    if isinstance(value, Decimal128):
        value = value.to_decimal()
        if value.is_nan():
            return math.nan
        return Fraction(value) if value.is_finite() else float(value)
    return Fraction(value) if isinstance(value, int) or math.isfinite(value) else value


NUMBERS = ("int", "float", "double", "decimal")


def type_of(value):
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case uuid.UUID():
            return "uuid"
        case Binary():
            if value.subtype == 4 and len(value) != 16:
                raise Refused
            return "uuid" if value.subtype == 4 else "binary"
        case bytes():
            return "binary"
        case datetime.datetime() | DatetimeMS():
            return "timestamp"
        case Decimal128():
            return "decimal"
        case ObjectId():
            return "objectId"
    if isinstance(value, UNSUPPORTED):
        raise LeftOut
    return type(value).__name__


def timestamp(value):
    milliseconds = int(value) if isinstance(value, DatetimeMS) else (value - EPOCH) // datetime.timedelta(milliseconds=1)
    seconds, rest = divmod(abs(milliseconds), 1000)
    sign = -1 if milliseconds < 0 else 1
    return {"ts": [str(sign * seconds), sign * rest * 1_000_000]}


TEXTS = {
    "bool": lambda value: value, "string": lambda value: value, "int": lambda value: {"int": str(int(value))},
    "double": lambda value: {"double": "%x" % struct.unpack("<Q", struct.pack("<d", value))},
    "float": lambda value: {"float": "%x" % struct.unpack("<I", struct.pack("<f", value))},
    "decimal": lambda value: {"dec": value.bid}, "binary": lambda value: {"bin": bytes(value).hex()},
    "timestamp": timestamp, "objectId": lambda value: {"oid": str(value)},
    "uuid": lambda value: {"uuid": str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value)))},
}


def initial(column):
    if "collection" in column:
        return {"dict": {}} if column["collection"] == "dictionary" else {column["collection"]: []}
    if column["nullable"]:
        return None
    return {"bool": False, "string": "", "int": {"int": "0"}, "double": {"double": "0"}, "float": {"float": "0"},
            "decimal": {"dec": Decimal128("0").bid}, "binary": {"bin": ""}, "timestamp": {"ts": ["0", 0]},
            "objectId": {"oid": "0" * 24}, "uuid": {"uuid": str(uuid.UUID(int=0))}}[column["type"]]


def is_no_key(key):
    return key.startswith("$") or "." in key


# ------------------------------------------------------------------ comparison

def is_same(found, expected):
    """Whether an export has what the model says. Decimals are compared by their bits, and a set with the members of which
    it may hold one."""
    match found, expected:
        case {"dec": str()}, {"dec": bytes(bits)}:
            return decimal(found).bid == bits
        case {"set": list(members)}, {"set": list(wanted)}:
            return (all(any(is_same(member, other) for other in wanted) for member in members)
                    and all(any(is_equal(member, other) for member in members) for other in wanted)
                    and not any(is_equal(a, b) for i, a in enumerate(members) for b in members[:i]))
        case dict(), dict():
            return found.keys() == expected.keys() and all(is_same(found[key], expected[key]) for key in found)
        case list(), list():
            return len(found) == len(expected) and all(map(is_same, found, expected))
    return found == expected and type(found) is type(expected)


def decimal(found):
    """A Decimal of an export: its bits stand beside it if its text does not tell them."""
    if "bits" in found:
        return Decimal128.from_bid(bytes.fromhex(found["bits"])[::-1])
    sign, digits, exponent = Decimal(found["dec"]).as_tuple()
    if not isinstance(exponent, int):
        return Decimal128(Decimal(found["dec"]))
    coefficient = int("".join(map(str, digits)))
    return Decimal128.from_bid((sign << 127 | exponent + 6176 << 113 | coefficient).to_bytes(16, "little"))


def is_equal(a, b):
    """Whether a set takes two members for one (Spec/State.md, A7)."""
    if is_same(a, b) or is_same(b, a):
        return True
    numbers = [number(value) for value in (a, b)]
    if None in numbers or any(n.is_nan() for n, _ in numbers):
        return False
    (x, is_decimal_x), (y, is_decimal_y) = numbers
    if is_decimal_x != is_decimal_y:
        with localcontext(prec=15):
            return (x if is_decimal_x else +x) == (y if is_decimal_y else +y) or x == y
    return x == y


def number(value):
    """A number of an export, and whether it is a Decimal."""
    match value:
        case {"int": digits}:
            return Decimal(digits), False
        case {"double": bits}:
            return Decimal(struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]), False
        case {"float": bits}:
            return Decimal(struct.unpack("<f", struct.pack("<I", int(bits, 16)))[0]), False
        case {"dec": bytes(bits)}:
            return Decimal128.from_bid(bits).to_decimal(), True
        case {"dec": str()}:
            return decimal(value).to_decimal(), True
    return None


# ------------------------------------------------------------------ random values

DOUBLES = [0.0, -0.0, 0.1, 0.5, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 3.4028234663852886e38,
           3.5e38, 1e-45, 16777217.0, 1e16, 1e22, 1e23, 123456789.5, math.inf, -math.inf, math.nan]
DECIMALS = ["0", "-0", "0E-6176", "0E+6111", "-0E+3", "1E-6176", "-1E-6176", "1E+6144", "1.10", "0.1", "7", "7.00", "7E+2",
            "9.999999999999999999999999999999999E+6144", "-9.999999999999999999999999999999999E+6144",
            "9999999999999999999999999999999999", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
            "9007199254740993", "NaN", "Infinity", "-Infinity"]
DAYS = [(1, 1, 1), (1, 1, 2), (4, 2, 29), (100, 2, 28), (500, 3, 1), (1500, 2, 28), (1582, 10, 4), (1582, 10, 5), (1582, 10, 15),
        (1600, 2, 29), (1700, 2, 28), (1900, 3, 1), (1969, 12, 31), (1970, 1, 1), (2000, 2, 29), (2038, 1, 19), (9999, 12, 31)]
MILLISECONDS = [-2 ** 63, 2 ** 63 - 1, -62135596800000, -62135596800001, -62167219200000, 253402300799999, 253402300800000,
                -1, 0, 1, 999, -999, -1000, 8.64e15, -8.64e15]
KEYS = ["a", "b", "_id", "", " ", "é", "e\u0301", "\n", '"', "\\", "/", "0", "x" * 70, "oid", "int", "list", "dict",
        "null", "😀", "ref", "a$", "base64"]
BAD_KEYS = ["$", "$a", ".", "a.b", "$numberlong", "$oid", "$date", "$numberLong", "$id", "$binary"]


def random_double(random):
    kind = random.randrange(4)
    if kind == 0:
        return random.choice(DOUBLES)
    if kind == 1:
        return struct.unpack("<d", random.randbytes(8))[0]
    if kind == 2:
        return float(random_integer(random))
    return random.choice([random.uniform(-1e6, 1e6), random.randrange(-999, 999) / 8, float(random.randrange(-99, 99)),
                          struct.unpack("<f", random.randbytes(4))[0]])


def random_decimal(random):
    kind = random.randrange(4)
    if kind == 0:
        return Decimal128(random.choice(DECIMALS))
    if kind == 1:
        return Decimal128(str(random_integer(random)))
    digits = str(random.randrange(10 ** random.randrange(1, 35)))
    exponent = random.randrange(-30, 30) if kind == 2 else random.randrange(-6176, 6112)
    return Decimal128(f"{random.choice(['', '-'])}{digits}E{exponent:+}")


def random_date(random):
    kind = random.randrange(4)
    if kind == 0:
        return DatetimeMS(int(random.choice(MILLISECONDS)))
    if kind == 1:
        return DatetimeMS(random.choice([random.randrange(-2 ** 63, 2 ** 63), random.randrange(-10 ** 15, 10 ** 15)]))
    day = random.choice(DAYS) if kind == 2 else (random.randrange(2, 9999), random.randrange(1, 13), random.randrange(1, 29))
    zone = datetime.timezone.utc
    if 1 < day[0] < 9999 and random.random() < 0.5:
        zone = datetime.timezone(datetime.timedelta(minutes=random.randrange(-1439, 1440)))
    return datetime.datetime(*day, random.choice([0, 23, 12]), random.choice([0, 59]), random.choice([0, 59, 7]),
                             random.choice([0, 999, random.randrange(1000)]) * 1000, zone)


def random_binary(random):
    data = random.randbytes(random.choice([0, 1, 5, 16, 40]))
    subtype = random.choice([0, 0, 1, 2, 3, 5, 6, 0x80, 0xFE, 4])
    return Binary(random.randbytes(16) if subtype in (3, 4) else data, subtype)


def random_nested(random, depth=0):
    """What a Mixed can hold."""
    kind = random.randrange(12)
    if depth < 4 and kind == 0:
        return [random_nested(random, depth + 1) for _ in range(random.randrange(4))]
    if depth < 4 and kind == 1:
        return {random_key(random): random_nested(random, depth + 1) for _ in range(random.randrange(4))}
    if depth == 0 and kind == 2 and random.random() < 0.1:
        value = random_scalar(random)
        for _ in range(random.choice([20, 60, 99])):
            value = [value] if random.random() < 0.5 else {random_key(random): value}
        return value
    return DBRef("L", ObjectId(random.randbytes(12))) if kind == 3 else random_scalar(random)


def random_key(random):
    """What BSON and a dictionary take for a key."""
    if random.random() < 0.7:
        return random.choice(KEYS)
    return random_text(random).replace("$", "s").replace(".", "p").replace("\0", "0")


SCALARS = {
    "int": lambda random: random.choice([int, Int64])(random_integer(random)), "bool": lambda random: random.random() < 0.5,
    "string": random_text, "binary": random_binary, "timestamp": random_date, "double": random_double,
    "float": lambda random: struct.unpack("<f", random.randbytes(4))[0], "decimal": random_decimal,
    "objectId": lambda random: ObjectId(random.randbytes(12)), "uuid": lambda random: uuid.UUID(bytes=random.randbytes(16)),
}


def random_scalar(random):
    value = SCALARS[random.choice(list(SCALARS))](random)
    return None if random.random() < 0.05 else value


def random_odd(random):
    """What most fields refuse or leave out."""
    return random.choice([
        lambda: {random.choice(BAD_KEYS): random.choice([None, "text", True])}, lambda: DBRef("Nowhere", 1),
        lambda: DBRef("L", "no ObjectId"), lambda: Binary(b"short", 4), lambda: Regex("a", "i"), MinKey, MaxKey,
        lambda: Timestamp(1, 2), lambda: Code("f()"), lambda: Code("f()", {"a": 1}),
        lambda: [random.choice([MinKey(), {"$": 1}])], lambda: {"a": random.choice([MaxKey(), {"b.c": 1}])}])()
