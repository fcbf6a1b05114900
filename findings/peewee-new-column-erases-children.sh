#!/usr/bin/env bash
# peewee's migration that adds a column with a default to a table of SQLite erases the rows that refer to this table, if
# their foreign keys cascade. It raises nothing, and the table itself keeps its rows.
#
# peewee 4.5.3 with the SQLite of CPython 3.11.
#
# Expected: `add_column` is ALTER TABLE ... ADD COLUMN, which touches no other table.
# Seen, one author with one book, `foreign_keys` on, ON DELETE CASCADE, the migration on the table of authors:
#
#     migration                                      authors left    books left
#     add_column, an integer with default=0          1               0
#     add_column, an integer that may be null        1               1
#     add_not_null                                   1               0
#     drop_column, rename_column                     1               1
#
# A column that must not be null is added as one that may be, filled, and then made NOT NULL by writing the table anew:
# the old one is dropped, and SQLite deletes the rows of a table that it drops, for the sake of foreign keys. With ON
# DELETE SET NULL the books stay and lose their author. The two of the last line use SQLite's own ALTER TABLE.
#
# For whoever captures databases: in the history of changes this is a delete of each child row by the cascade, like any
# other, so it reaches all devices. Let the program pause the capture around migrations, compare the rows afterwards,
# and ask before it sends more deletes than a user makes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check peewee==4.5.3

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import peewee
from playhouse.migrate import SqliteMigrator, migrate


def left(on_delete, steps):
    database = peewee.SqliteDatabase(":memory:", pragmas={"foreign_keys": 1})

    class Author(peewee.Model):
        name = peewee.TextField(null=True)

    class Book(peewee.Model):
        author = peewee.ForeignKeyField(Author, on_delete=on_delete, null=True)

    database.bind([Author, Book])
    database.create_tables([Author, Book])
    Book.create(author=Author.create(name="Ann"))
    migrate(steps(SqliteMigrator(database)))
    count = [database.execute_sql(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("author", "book")]
    links = database.execute_sql("SELECT count(author_id) FROM book").fetchone()[0]
    return (*count, links)


for name, on_delete, steps, was in (
    ("add_column with a default", "CASCADE",
     lambda m: m.add_column("author", "age", peewee.IntegerField(default=0)), (1, 0, 0)),
    ("add_column with null", "CASCADE",
     lambda m: m.add_column("author", "age", peewee.IntegerField(null=True)), (1, 1, 1)),
    ("add_not_null", "CASCADE", lambda m: m.add_not_null("author", "name"), (1, 0, 0)),
    ("drop_column", "CASCADE", lambda m: m.drop_column("author", "name"), (1, 1, 1)),
    ("rename_column", "CASCADE", lambda m: m.rename_column("author", "name", "nom"), (1, 1, 1)),
    ("add_column with a default, SET NULL", "SET NULL",
     lambda m: m.add_column("author", "age", peewee.IntegerField(default=0)), (1, 1, 0)),
):
    seen = left(on_delete, steps)
    print(f"{name}: authors, books, books with an author: {seen}")
    if seen != was:
        sys.exit(f"{name} was {was}")
PYTHON
