"""Partition values and the ways in which they are spelled, with a model of Spec/Protocol.md, section 4.2."""
import base64
import json
import re
import uuid

from bson import Binary, Int64, ObjectId, json_util
from bson.binary import UuidRepresentation

OPTIONS = [
    options.with_options(uuid_representation=UuidRepresentation.STANDARD)
    for options in (json_util.CANONICAL_JSON_OPTIONS, json_util.RELAXED_JSON_OPTIONS, json_util.LEGACY_JSON_OPTIONS)]
EXACT_MAX = 2 ** 53


# ------------------------------------------------------------------ the model

class NoValue(Exception):
    pass


def canonical(text):
    """The one text of the value that a text spells; what spells none stays as it is."""
    try:
        return text_of(read(text))
    except NoValue:
        return text


def text_of(value):
    if value is None:
        return b"null"
    if isinstance(value, str):
        short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return b'"%s"' % "".join(
            short.get(c, c if c >= " " else "\\u%04x" % ord(c)) for c in value).encode()
    if isinstance(value, int):
        return b'{"$numberLong":"%d"}' % value
    if isinstance(value, ObjectId):
        return b'{"$oid":"%s"}' % str(value).encode()
    return b'{"$binary":{"base64":"%s","subType":"04"}}' % base64.b64encode(value.bytes)


def read(text):
    try:
        json_value = json.loads(text.decode(), object_pairs_hook=members, parse_float=real, parse_int=integer,
                                parse_constant=refuse)
    except (ValueError, RecursionError):
        raise NoValue from None
    return value_of(json_value)


def refuse(*_):
    raise NoValue


def members(pairs):
    if len(dict(pairs)) < len(pairs):
        raise NoValue
    return dict(pairs)


def real(digits):
    number = float(digits)
    if not abs(number) <= EXACT_MAX or number != int(number):
        raise NoValue
    return int(number)


def integer(digits):
    number = int(digits)
    if not -2 ** 63 <= number < 2 ** 63:
        raise NoValue
    return number


def value_of(json_value):
    match json_value:
        case None:
            return None
        case bool():
            raise NoValue
        case int():
            return json_value
        case str():
            if any("\ud800" <= c <= "\udfff" for c in json_value):
                raise NoValue
            return json_value
        case {"$numberInt": str(digits), **rest} if not rest and re.fullmatch("-?[0-9]+", digits, re.A):
            if not -2 ** 31 <= int(digits) < 2 ** 31:
                raise NoValue
            return int(digits)
        case {"$numberLong": str(digits), **rest} if not rest and re.fullmatch("-?[0-9]+", digits, re.A):
            return integer(digits)
        case {"$numberDouble": str(digits), **rest} if not rest and re.fullmatch(
                r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", digits, re.A):
            return real(digits)
        case {"$oid": str(digits), **rest} if not rest and re.fullmatch("[0-9a-fA-F]{24}", digits):
            return ObjectId(digits)
        case {"$uuid": str(digits), **rest} if not rest and re.fullmatch(
                "[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", digits):
            return uuid.UUID(digits)
        case {"$binary": {"base64": str(text), "subType": str(subtype), **inner}, **rest} if not rest and not inner:
            return binary(text, subtype)
        case {"$binary": str(text), "$type": str(subtype), **rest} if not rest:
            return binary(text, subtype)
    raise NoValue


def binary(text, subtype):
    if not re.fullmatch("0?4", subtype) or not re.fullmatch(r"[A-Za-z0-9+/]{22}==", text):
        raise NoValue
    return uuid.UUID(bytes=base64.b64decode(text))


# ------------------------------------------------------------------ random values

LETTERS = ["a", "Z", "0", " ", '"', "\\", "/", "\n", "\t", "\r", "\b", "\f", "\x01", "\0", "\x7f", "\x85", "é", "e\u0301",
           "ß", "İ", "\u200d", "\u202e", "\u2028", "\ufeff", "\ufffd", "\uffff", "漢", "가", "😀", "👩\u200d👧", "\U0010ffff",
           "{", "}", "*", "%", "$", ".", "'", "<", "&", "42", "null", "$oid"]


def random_text(random):
    kind = random.randrange(8)
    if kind == 0:
        return random.choice(["", "42", "null", "true", "-0", "1e3", '{"$oid":"000000000000000000000000"}', '""', "\\u0041",
                              '{"$numberLong":"42"}', "%22", "${user}", "*", "a/b", "/", "..", "\ufeff42"])
    if kind == 1:
        return "".join(chr(random.choice([random.randrange(0xD800), random.randrange(0xE000, 0x110000)]))
                       for _ in range(random.randrange(1, 6)))
    return "".join(random.choice(LETTERS) for _ in range(random.randrange(1, 9)))


def random_integer(random):
    edge = random.choice([0, 2 ** 31, -2 ** 31, 2 ** 53, -2 ** 53, 2 ** 63, -2 ** 63, 10 ** random.randrange(19)])
    number = random.choice([edge + random.randrange(-3, 4), random.randrange(-1000, 1000), random.getrandbits(64) - 2 ** 63])
    return min(max(number, -2 ** 63), 2 ** 63 - 1)


def random_value(random):
    """What a partition can be: null, a text, an int, an ObjectId or a UUID."""
    kind = random.randrange(100)
    if kind == 0:
        return None
    if kind < 40:
        return random_text(random)
    if kind < 70:
        return random_integer(random)
    return ObjectId(random.randbytes(12)) if kind < 85 else uuid.UUID(bytes=random.randbytes(16))


# ------------------------------------------------------------------ spellings

def library_spellings(value):
    """What bson.json_util writes with its three sets of options, with and without letters outside ASCII, with and
    without blanks; of an int also as the long that it is in a document."""
    forms = [value]
    if isinstance(value, int):
        forms = [value, Int64(value)]
    if isinstance(value, uuid.UUID):
        forms = [value, Binary(value.bytes, 4)]
    texts = {
        json_util.dumps(form, json_options=options, ensure_ascii=ascii, separators=separators)
        for form in forms for options in OPTIONS for ascii in (True, False) for separators in ((", ", ": "), (",", ":"))}
    return sorted(text.encode() for text in texts)


def sdk_spellings(value):
    """What the SDKs write: Kotlin and Java, JavaScript, Swift and C++, .NET."""
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    canonical, relaxed, _ = OPTIONS
    yield json_util.dumps(value, json_options=canonical, **compact).encode()
    yield json_util.dumps(value, json_options=relaxed, **compact).encode()
    if isinstance(value, int):
        if -2 ** 31 <= value < 2 ** 31:
            yield b'{"$numberInt":"%d"}' % value
        yield b'{"$numberLong":"%d"}' % value
        yield b'{ "$numberLong" : "%d" }' % value
    if isinstance(value, ObjectId):
        yield b'{ "$oid" : "%s" }' % str(value).encode()
    if isinstance(value, uuid.UUID):
        yield b'{ "$binary" : { "base64" : "%s", "subType" : "04" } }' % base64.b64encode(value.bytes)
        yield b'{"$uuid":"%s"}' % str(value).encode()
    if isinstance(value, str):
        yield json.dumps(value).encode()


def random_spelling(value, random):
    """Any spelling that JSON allows, of any of the forms."""
    if isinstance(value, int) and abs(value) <= EXACT_MAX and random.random() < 0.5:
        digits = random_digits(value, random)
        text = random.choice([digits, '{"$numberDouble":%s}' % quoted(digits, random)])
    else:
        text = respelled(json.loads(random.choice(library_spellings(value))), random)
    return (blank(random) + text + blank(random)).encode()


def random_digits(value, random):
    """An int with a fraction of zero or an exponent."""
    sign = "-" if value < 0 or value == 0 and random.random() < 0.3 else ""
    digits, e = str(abs(value)), random.choice("eE")
    zeros = len(digits) - len(digits.rstrip("0")) if value else 0
    cut = random.randrange(zeros + 1) if zeros else 0
    return sign + random.choice([
        digits + "." + "0" * random.randrange(1, 20),
        digits[:len(digits) - cut] + e + random.choice(["", "+"] if cut else ["", "+", "-"]) + str(cut),
        digits[0] + "." + (digits[1:] or "0") + e + random.choice(["", "+"]) + str(len(digits) - 1),
        digits + "0" * 3 + e + "-3" if value else digits + e + "300"])


def respelled(json_value, random):
    if isinstance(json_value, dict):
        pairs = list(json_value.items())
        random.shuffle(pairs)
        inner = ",".join(
            f"{blank(random)}{quoted(name, random)}{blank(random)}:{blank(random)}{respelled_member(name, member, random)}"
            f"{blank(random)}" for name, member in pairs)
        return "{" + inner + "}"
    return quoted(json_value, random) if isinstance(json_value, str) else json.dumps(json_value)


def respelled_member(name, member, random):
    if name in ("$oid", "$uuid") and random.random() < 0.5:
        member = member.upper()
    if name in ("subType", "$type"):
        member = random.choice(["4", "04"])
    return respelled(member, random)


def blank(random):
    return random.choice(["", "", "", " ", "\t", "\n", "\r\n", "  "])


def quoted(text, random):
    return '"' + "".join(escaped(c, random) for c in text) + '"'


def escaped(character, random):
    short = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    is_free = character >= " " and character not in '"\\'
    kind = random.randrange(8 if is_free else 2)
    if kind == 1 and character in short:
        return short[character]
    if kind > 0 and is_free:
        return character
    units = character.encode("utf-16-be")
    digits = "".join("\\u%02x%02x" % (units[i], units[i + 1]) for i in range(0, len(units), 2))
    return "".join(c.upper() if c != "u" and random.random() < 0.5 else c for c in digits)


def mutated(text, random):
    """A text with a byte more, fewer or another one; most are no value, some are another one."""
    text = bytearray(text)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(text) + 1)
        byte = random.choice(b'{}[]",:\\u0149aeE+-. $\t\n\r\x00\xc3\xa9\xff\xef\xbb\xbf/tfn')
        kind = random.randrange(3)
        if kind == 0 or not text:
            text.insert(place, byte)
        elif kind == 1:
            del text[min(place, len(text) - 1)]
        else:
            text[min(place, len(text) - 1)] = byte
    return bytes(text) or b"x"
