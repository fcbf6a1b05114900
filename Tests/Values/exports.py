"""What Python's own readers make of exports as documents and as CSV (Spec/Export.md, sections 7 and 8)."""
import base64
import csv
import datetime
import io
import uuid

from bson import Decimal128, ObjectId, json_util
from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion

from documents import TEXTS, Model, is_same
from report import Failure

OPTIONS = json_util.RELAXED_JSON_OPTIONS.with_options(
    uuid_representation=UuidRepresentation.STANDARD, tz_aware=True, tzinfo=datetime.timezone.utc,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO)
# The reader does not tell a missing value from an empty one.
EMPTY = (None, "", {"bin": ""})


def load(text):
    return json_util.loads(text, json_options=OPTIONS)


def compare_documents(output, told, classes):
    model = Model(classes, "relaxed")
    for line in output.splitlines():
        document = load(line)
        if document["_id"] in told:
            check(document["_id"], "documents", told[document["_id"]], model.fields(document, "D"), document)


def compare_table(output, told, classes):
    model, columns = Model(classes, "relaxed"), {column["name"]: column for column in classes["D"]["properties"]}
    for row in csv.DictReader(io.StringIO(output.decode(), newline=""), strict=True):
        number = int(row.pop("_id"))
        if number in told:
            fields = {name: cell(text, columns[name], model) for name, text in row.items()}
            found = {name: None if row[name] == "" and value in EMPTY else value for name, value in told[number].items()}
            check(number, "csv", found, fields, row)


def check(number, what, found, fields, shown):
    if found.keys() != fields.keys():
        raise Failure(number, f"{what}: {found.keys() ^ fields.keys()}")
    for name, value in fields.items():
        if not is_same(found[name], value):
            raise Failure(number, f"{what}: {name}: {shown[name]!r} is {value}, not {found[name]}")


def cell(text, column, model):
    """A cell as its column's type says."""
    if text == "":
        return None
    if column.get("collection") or column["type"] == "mixed" or column.get("target") == "P":
        return model.field(load(text), column)
    match column["type"]:
        case "link":
            value = ObjectId(text)
        case "bool":
            value = {"true": True, "false": False}[text]
        case "int":
            value = int(text)
        case "float" | "double":
            return TEXTS[column["type"]](float(text))
        case "decimal":
            value = Decimal128(text)
        case "binary":
            value = base64.b64decode(text, validate=True)
        case "timestamp":
            value = load(text) if text.startswith("{") else datetime.datetime.fromisoformat(text)
        case "objectId":
            value = ObjectId(text)
        case "uuid":
            value = uuid.UUID(text)
        case _:
            value = text
    return model.field(value, column)
