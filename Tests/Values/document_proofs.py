"""What was imported is what Python's own values are, or is refused with its place (Spec/Export.md, section 4)."""
import json
import re
from random import Random

import bson
from bson import Decimal128, json_util
from bson.binary import UuidRepresentation

from documents import (
    SCALARS, LeftOut, Model, Refused, is_same, random_key, random_nested, random_odd, random_scalar)
from exports import compare_documents, compare_table
from report import Failure
from server import Server, word

STANDARD = bson.CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
FORMS = {name: options.with_options(uuid_representation=UuidRepresentation.STANDARD) for name, options in (
    ("canonical", json_util.CANONICAL_JSON_OPTIONS), ("relaxed", json_util.RELAXED_JSON_OPTIONS),
    ("legacy", json_util.LEGACY_JSON_OPTIONS))}
FORMS["bson"] = None
# An import names so many of the lines that it refuses.
PIECE = 5_000


def written(document, form):
    if form == "bson":
        return bson.encode(document, codec_options=STANDARD)
    return json_util.dumps(document, json_options=FORMS[form], ensure_ascii=form == "legacy").encode() + b"\n"


def is_json(value, form):
    """The legacy form has NaN and infinities as words that are no JSON."""
    try:
        return form != "legacy" or json_util.dumps(value, json_options=FORMS[form], allow_nan=False)
    except ValueError:
        return False


# ------------------------------------------------------------------ a schema with all columns

def column(name, type, collection=None, nullable=True, target=None):
    more = {"collection": collection, "target": target}
    return {"name": name, "nullable": nullable, "type": type, **{key: more[key] for key in more if more[key]}}


def all_columns():
    for type in [*SCALARS, "mixed"]:
        for collection in (None, "list", "set", "dictionary"):
            yield column(f"{type}_{collection}" if collection else type, type, collection)
    yield from (column("must_int", "int", nullable=False), column("must_decimals", "decimal", "list", nullable=False))
    yield from (column("link", "link", target="L"), column("links", "link", "list", False, "L"),
                column("link_set", "link", "set", False, "L"), column("link_map", "link", "dictionary", target="L"))
    yield from (column("part", "link", target="P"), column("parts", "link", "list", False, "P"),
                column("part_map", "link", "dictionary", target="P"))


CLASSES = {declared["class"]: declared for declared in [
    {"class": "D", "kind": "top-level", "key": column("_id", "int", nullable=False), "properties": list(all_columns())},
    {"class": "L", "kind": "top-level", "key": column("_id", "objectId", nullable=False), "properties": []},
    {"class": "P", "kind": "embedded", "properties": [column(type, type) for type in [*SCALARS, "mixed"]]}]}
SCHEMA = '{"anabranch_export":1}\n' + "".join(json.dumps(declared) + "\n" for declared in CLASSES.values())


def random_field(column, random):
    """A value that the column may take."""
    match column.get("collection"):
        case "list" | "set":
            values = [random_element(column, random) for _ in range(random.randrange(5))]
            return values + random.choices(values, k=len(values) // 2)
        case "dictionary":
            return {random_key(random): random_element(column, random) for _ in range(random.randrange(4))}
    return random_element(column, random)


def random_element(column, random):
    if random.random() < 0.05:
        return None
    match column.get("target"):
        case "L":
            key = bson.ObjectId(random.randbytes(12))
            return random.choice([key, bson.DBRef("L", key)])
        case "P":
            return {inner["name"]: random_element(inner, random)
                    for inner in random.sample(CLASSES["P"]["properties"], random.randrange(4))}
    if column["type"] == "mixed":
        return random_scalar(random) if column.get("collection") == "set" else random_nested(random)
    return random_scalar(random) if random.random() < 0.2 else SCALARS[column["type"]](random)


class Case:
    """A document, and what an export has of it: its fields, or which of them is refused."""

    def __init__(self, seed):
        self.seed = seed
        self.random = Random(seed)
        self.form = self.random.choice(list(FORMS))
        self.model = Model(CLASSES, self.form)
        self.document = {"_id": bson.Int64(seed)}
        self.refused = None
        columns = self.random.sample(CLASSES["D"]["properties"], 10)
        odd = self.random.randrange(-90, 10)
        for number, column in enumerate(columns):
            self.draw(column, is_odd=number == odd)
        self.expected = None if self.refused else self.model.fields(self.document, "D")

    def draw(self, column, is_odd):
        """Gives the field a value that it takes, or an odd one, which may be refused."""
        for _ in range(20):
            value = random_odd(self.random) if is_odd else random_field(column, self.random)
            if self.form == "bson" and column["name"] == "decimal" and self.random.random() < 0.3:
                # Any bits, also those that no text tells.
                value = Decimal128.from_bid(self.random.randbytes(16))
            if not is_json(value, self.form):
                continue
            try:
                self.model.field(value, column)
            except Refused:
                if self.refused or not is_odd and self.random.random() > 0.001:
                    continue
                self.refused = column["name"]
            except LeftOut:
                pass
            self.document[column["name"]] = value
            return


def prove_documents(command, seed, count):
    cases = [Case(number) for number in range(seed, seed + count)]
    with Server(command) as server:
        schema = server.file("schema", SCHEMA.encode())
        for form in FORMS:
            of_form = [case for case in cases if case.form == form]
            for start in range(0, len(of_form), PIECE):
                imported(server, of_form[start:start + PIECE], form, schema)
        status, output, errors = server.run("export", "--path", word(b'app/"p"'))
        if status != 0:
            raise Failure(seed, f"export: {errors}")
        lines = output.splitlines(keepends=True)
        found = {int(line[1]["int"]): line[2] for line in map(json.loads, lines)
                 if isinstance(line, list) and line[0] == "D"}
        try_copies(server, lines[:PIECE], seed)
        # BSON alone has numbers that no text tells: payloads of NaN, decimals of more than 34 digits.
        told = {case.seed: found[case.seed] for case in cases if case.form != "bson" and case.seed in found}
        try_exports(server, told, schema, seed)
    for case in cases:
        compare(case, found.pop(case.seed, None))
    if found:
        raise Failure(seed, f"objects of no document: {list(found)[:10]}")
    refused = sum(case.refused is not None for case in cases)
    return f"{count} documents in {len(FORMS)} forms: {count - refused} equal, {refused} refused with their place"


def try_copies(server, lines, seed):
    """What was exported is the same bytes again after an import, and after a client has written it."""
    file = server.file("export", b"".join(lines))
    server.run("import", file, "--path", word(b'app/"imported"'))
    server.run("client", "write", file, "--path", word(b'app/"written"'), "--url", f"ws://127.0.0.1:{server.port}",
               "--anonymous", data=f"{server.folder}/replicas")
    for name in (b"imported", b"written"):
        _, output, errors = server.run("export", "--path", word(b'app/"%s"' % name))
        if output != b"".join(lines):
            differing = [pair for pair in zip(lines, output.splitlines(keepends=True)) if pair[0] != pair[1]][:1]
            raise Failure(seed, f"{name.decode()}: {differing or len(output)} {errors.decode()}")


def try_exports(server, told, schema, seed):
    """What Python reads of documents and of tables is what the lines say, and an import of the documents gives them again."""
    for flag, compare in (("--documents", compare_documents), ("--csv", compare_table)):
        status, output, errors = server.run("export", "--path", word(b'app/"p"'), flag, "--class", "D")
        if status != 0:
            raise Failure(seed, f"export {flag}: {errors}")
        compare(output, told, CLASSES)
        if flag == "--documents":
            file = server.file("again", output)
            server.run("import", file, "--path", word(b'app/"again"'), "--class", "D", "--schema", schema)
    _, output, errors = server.run("export", "--path", word(b'app/"again"'))
    again = {int(line[1]["int"]): line[2] for line in map(json.loads, output.splitlines()) if isinstance(line, list)}
    for number, fields in told.items():
        if again.get(number) != fields:
            raise Failure(number, f"as documents and back: {again.get(number)}, not {fields}")


def imported(server, cases, form, schema):
    if not cases:
        return
    file = server.file("documents", b"".join(written(case.document, form) for case in cases))
    _, output, errors = server.run(
        "import", file, "--path", word(b'app/"p"'), "--class", "D", "--schema", schema)
    told = {int(number): text for number, text in
            re.findall(r"^.*?(?:line|document) (\d+): (.*)$", errors.decode(), re.M)}
    for number, case in enumerate(cases, start=1):
        text = told.pop(number, None)
        if case.refused is None and text is not None:
            raise Failure(case.seed, f"{form}: refused: {text[:300]}")
        if case.refused is not None and (text is None or case.refused not in text.split(": ")[0] and "BSON" not in text):
            raise Failure(case.seed, f"{form}: {case.refused} is to be refused, {case.document[case.refused]!r}: {text}")


def compare(case, found):
    if (found is None) != (case.refused is not None):
        raise Failure(case.seed, f"{case.form}: {case.document} is {found}")
    for name, value in (case.expected or {}).items():
        if not is_same(found[name], value):
            raise Failure(case.seed, f"{case.form}: {name} {case.document.get(name)!r}: is {found[name]}, not {value}")


# ------------------------------------------------------------------ a schema that is found

GROUP = 20


class Group:
    """Documents of one class whose schema is to be found: some fields have one type, others a mixture."""

    def __init__(self, seed):
        self.seed = seed
        self.random = Random(seed)
        self.form = self.random.choice(list(FORMS))
        self.path = word(b'app/"%d"' % seed)
        kinds = {name: self.random_kind() for name in self.random.sample(NAMES, 5)}
        key = self.random.choice([lambda n: n, str, lambda n: bson.ObjectId("%024x" % n)])
        self.documents = []
        for number in range(GROUP):
            document = {"_id": key(number)}
            for name, kind in kinds.items():
                value = kind()
                if self.random.random() < 0.9 and is_json(value, self.form):
                    document[name] = value
            self.documents.append(document)

    def random_kind(self, depth=0):
        """How values of a field are made."""
        random = self.random
        one = SCALARS[random.choice(list(SCALARS))]
        nullable = random.random() < 0.3
        kind = random.randrange(10 if depth < 2 else 5)
        if kind < 3:
            return lambda: None if nullable and random.random() < 0.3 else one(random)
        if kind == 3:
            numbers = [SCALARS[type] for type in ("int", "double")]
            return lambda: random.choice(numbers)(random)
        if kind == 4:
            return lambda: random_nested(random)
        if kind == 5:
            return lambda: {} if random.random() < 0.5 or not nullable else None
        inner = [self.random_kind(depth + 1) for _ in range(2)]
        if kind < 8:
            names = random.sample(NAMES, 2)
            return lambda: {name: make() for name, make in zip(names, inner) if random.random() < 0.8}
        return lambda: [inner[0]() for _ in range(random.randrange(4))]


NAMES = ["a", "b", "a_b", "b_a", "value", "é", "e\u0301", "😀", " ", "x" * 57, "list", "oid", "_type", "name with blanks"]


def prove_inference(command, seed, count):
    groups = [Group(seed + number) for number in range(max(1, count // GROUP))]
    documents = 0
    with Server(command) as server:
        for group in groups:
            documents += try_group(server, group)
    return f"{documents} documents in {len(groups)} classes that were found: all equal"


def try_group(server, group):
    file = server.file("documents", b"".join(written(document, group.form) for document in group.documents))
    linked = server.file("linked", SCHEMA.encode() + b'["L",{"oid":"%s"},{}]\n' % (b"0" * 24))
    for arguments in ([linked], [file, "--class", "G", "--infer"]):
        status, output, errors = server.run("import", *arguments, "--path", group.path)
        if status != 0:
            raise Failure(group.seed, f"{group.form}: {errors.decode()[-600:]}")
    status, output, errors = server.run("export", "--path", group.path)
    lines = [json.loads(line) for line in output.splitlines()]
    classes = {line["class"]: line for line in lines if isinstance(line, dict) and "class" in line}
    found = {json.dumps(line[1]): line[2] for line in lines if isinstance(line, list) and line[0] == "G"}
    model = Model(classes, group.form)
    for document in group.documents:
        key = json.dumps(model.scalar(document["_id"], classes["G"]["key"]))
        known = {column["name"] for column in classes["G"]["properties"]}
        try:
            if document.keys() - known - {"_id"}:
                raise Failure(group.seed, f"no field {document.keys() - known}")
            expected = model.fields(document, "G")
        except Refused:
            raise Failure(group.seed, f"{group.form}: {classes} do not hold {document}") from None
        for name, value in expected.items():
            if key not in found or not is_same(found[key][name], value):
                raise Failure(group.seed, f"{group.form}: {name} {document.get(name)!r}: is {found.get(key, {}).get(name)}, "
                                          f"not {value}")
    return len(group.documents)
