"""Each value is one synced file, whoever spells it and wherever (Spec/Protocol.md, section 4.2)."""
import json
from random import Random

import bson
from bson.binary import UuidRepresentation

import partitions
from report import Failure, each, tell
from server import Connection, Connections, Server, word

CLASS = ('{"anabranch_export":1}\n{"class":"T","kind":"top-level","key":{"name":"_id","nullable":false,"type":"string"},'
         '"properties":[{"name":"n","nullable":true,"type":"int"}]}\n')
STANDARD = bson.CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
# What commands of their own are started for: each takes much longer than a request.
COMMANDS_MAX = 100


class Case:
    """A value and its spellings: those of libraries and SDKs, and three random ones."""

    def __init__(self, seed):
        self.seed = seed
        self.random = Random(seed)
        self.value = partitions.random_value(self.random)
        self.text = partitions.text_of(self.value)

    def spellings(self):
        known = {*partitions.library_spellings(self.value), *partitions.sdk_spellings(self.value)}
        return sorted(known) + [self.spelling() for _ in range(3)]

    def spelling(self):
        return partitions.random_spelling(self.value, self.random)

    def expect(self, is_right, what):
        if not is_right:
            raise Failure(self.seed, f"{self.text!r}: {what}")


def cases(seed, count):
    """So many cases with different values."""
    found = {}
    while len(found) < count:
        case = Case(seed)
        found.setdefault(case.text, case)
        seed += 1
    return list(found.values())


def path(app, spelling):
    return word(app.encode() + b"/" + spelling)


# ------------------------------------------------------------------ everything that names a partition

def prove_partitions(command, seed, count):
    """Imports documents by their partition's field, as JSON and BSON in all spellings, and looks for them by all others."""
    all_cases = cases(seed, count)
    with Server(command) as server:
        imported(server, all_cases)
        clients = Connections(server, "app")
        bound = sum(each("opened in all spellings", lambda case: bind_all(clients.connection, case), all_cases))
        each("asked for by the operator", lambda case: ask_operator(server, case), all_cases)
        sample = all_cases[::len(all_cases) // COMMANDS_MAX + 1]
        each("read and written by commands", lambda case: try_commands(server, case), sample)
        expect_files(server, {b"app/" + case.text for case in all_cases}, seed)
        status, output, errors = server.run("verify", "--json")
        if status != 0 or b"merge-files" in output + errors:
            raise Failure(seed, f"verify: {output[-500:]} {errors}")
        return (f"{len(all_cases)} values are one file each for {bound} spellings of BIND, imports of JSON and BSON, the admin "
                f"interface; for {len(sample)} of them in export, log and client")


def imported(server, all_cases):
    lines, documents = [], []
    for case in all_cases:
        for number, spelling in enumerate([case.spelling(), case.random.choice(case.spellings())]):
            # A line is one line: blanks of other kinds stay.
            spelling = spelling.replace(b"\n", b" ").replace(b"\r", b" ")
            lines.append(b'{"_id":"%d-%d","p":%s}\n' % (case.seed, number, spelling))
        value = bson.Int64(case.value) if isinstance(case.value, int) and case.random.random() < 0.5 else case.value
        documents.append(bson.encode({"_id": f"{case.seed}-2", "p": value}, codec_options=STANDARD))
    schema = server.file("schema", CLASS.encode())
    for name, pieces in (("d.jsonl", lines), ("d.bson", documents)):
        status, output, errors = server.run(
            "import", server.file(name, b"".join(pieces)), "--app", "app", "--partition-key", "p", "--class", "T",
            "--schema", schema)
        if status != 0 or f"{len(pieces)} objects written".encode() not in output:
            raise Failure(all_cases[0].seed, f"import of {name}: {output} {errors[:2000]}")
        tell(f"{len(pieces)} documents of {name} imported")


def bind_all(connection, case):
    """Opens each spelling: the first as a new client file, which is no file of any other partition."""
    ident, spellings = None, case.spellings()
    for spelling in spellings:
        ident, body = connection.bind(spelling, ident)
        case.expect(ident is not None, f"BIND of {spelling!r} as a client file of {case.text!r}: {body}")
        missing = [n for n in range(3) if b"%d-%d" % (case.seed, n) not in body]
        case.expect(not missing, f"BIND of {spelling!r} finds no object {missing}")
    return len(spellings)


def ask_operator(server, case):
    for spelling in (case.spelling(), case.random.choice(case.spellings())):
        status, answer = server.get("/v1/file", path=path("app", spelling))
        case.expect(status == 200 and answer["path"] == path("app", case.text),
                    f"the admin interface answers to {spelling!r} with {answer}")


def try_commands(server, case):
    keys = {f"{case.seed}-{n}" for n in range(3)}
    spelling = case.spelling()
    status, output, errors = server.run("export", "--path", path("app", spelling))
    found = {json.loads(line)[1] for line in output.splitlines() if line.startswith(b"[")}
    case.expect(status == 0 and found == keys, f"export of {spelling!r}: {found} {errors}")
    status, output, errors = server.run("log", "--path", path("app", case.spelling()))
    case.expect(status == 0 and output, f"log: {errors}")
    replicas = f"{server.folder}/replicas-{case.seed}"
    for key in ("a", "b"):
        line = server.file(f"line-{case.seed}", CLASS.encode() + b'["T","%d-%s",{}]\n' % (case.seed, key.encode()))
        spelling = case.spelling()
        status, output, errors = server.run(
            "client", "write", line, "--path", path("app", spelling), "--url", f"ws://127.0.0.1:{server.port}",
            "--anonymous", data=replicas)
        case.expect(status == 0, f"client write {spelling!r}: {errors}")
    status, output, errors = server.run(
        "client", "read", "--path", path("app", case.spelling()), "--url", f"ws://127.0.0.1:{server.port}",
        "--anonymous", data=replicas)
    lacking = [key for key in (*keys, f"{case.seed}-a", f"{case.seed}-b") if f'"{key}"'.encode() not in output]
    case.expect(status == 0 and not lacking, f"client read lacks {lacking}: {errors}")


def expect_files(server, expected, seed):
    paths = server.paths()
    if len(paths) != len(set(paths)) or set(paths) != expected:
        raise Failure(seed, f"files that no value has: {sorted(set(paths) - expected)[:5]}, "
                            f"values without a file: {sorted(expected - set(paths))[:5]}")


# ------------------------------------------------------------------ rules

PATTERNS = [
    (str, '"*"'), (bson.ObjectId, '{"$oid":"*"}'), (int, '{"$numberLong":"*"}'), (int, '{"$numberInt":"*"}'),
    (partitions.uuid.UUID, '{"$uuid":"*"}'), (partitions.uuid.UUID, '{"$binary":{"base64":"*","subType":"04"}}'),
    (partitions.uuid.UUID, '{"$binary":"*","$type":"04"}')]


def prove_rules(command, seed, count):
    """Every other value has a rule, in one of its spellings; and each type has patterns of its own."""
    chosen = [case for case in cases(seed, count) if not (isinstance(case.value, str) and set(case.value) & {"*", "$"})]
    rules = []
    for case in chosen[::2]:
        spelling = min((case.spelling() for _ in range(5)), key=len)
        rules.append(f"  - {{path: {yaml(spelling)}, app: app, right: read}}\n")
    random = Random(seed)
    patterns = [(kind, spelling) for kind, text in PATTERNS
                for spelling in (text, partitions.respelled(json.loads(text), NoEscape(random.random())))]
    for number, (_, text) in enumerate(patterns):
        rules.append(f"  - {{path: {yaml(text.encode())}, app: app-{number}, right: read}}\n")
    asked = 0
    with Server(command, rules="rules:\n" + "".join(rules)) as server:
        clients = Connections(server, "app")
        asked += sum(each("with a rule", lambda case: ask_rules(clients.connection, case, True), chosen[::2]))
        asked += sum(each("without a rule", lambda case: ask_rules(clients.connection, case, False), chosen[1::2]))
        for number, (kind, text) in enumerate(patterns):
            connection = Connection(server, f"app-{number}")
            for case in chosen[:100]:
                spelling = case.spelling()
                ident, answer = connection.bind(spelling)
                case.expect(ident if isinstance(case.value, kind) else answer == "json_error 206",
                            f"rule {text}, {spelling!r}: {ident} {answer}")
                asked += 1
    return f"{asked} questions to {len(rules)} rules, of values and types in random spellings"


def ask_rules(connection, case, has_rule):
    spellings = case.spellings()
    for spelling in spellings:
        ident, answer = connection.bind(spelling)
        case.expect(ident if has_rule else answer == "json_error 206",
                    f"{'with' if has_rule else 'without'} a rule, {spelling!r}: {ident} {answer}")
    return len(spellings)


class NoEscape(Random):
    """Random blanks and orders, and all letters as they are: a `*` is to stay one."""

    def randrange(self, *arguments):
        return 7 if arguments == (8,) else super().randrange(*arguments)


def yaml(text):
    """A scalar in quotation marks: what is not plain ASCII has its number."""
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else "\\U%08x" % ord(c) for c in text.decode()) + '"'


# ------------------------------------------------------------------ bytes

def prove_bytes(command, seed, count):
    """Texts that are mostly no value: each has the file that the model says."""
    expected = {}
    with Server(command) as server:
        connection = Connection(server, "app")
        for number in range(seed, seed + count):
            random = Random(number)
            text = partitions.mutated(partitions.random_spelling(partitions.random_value(random), random), random)
            name = partitions.canonical(text)
            ident, body = connection.bind(text, expected.get(name))
            if ident is None:
                raise Failure(number, f"BIND of {text!r}, in the model {name!r}: {body}")
            expected[name] = ident
        expect_files(server, {b"app/" + name for name in expected}, seed)
    values = sum(1 for name in expected if is_value(name))
    return f"{count} texts are {len(expected)} files, {values} of them of values"


def is_value(text):
    try:
        partitions.read(text)
        return True
    except partitions.NoValue:
        return False
