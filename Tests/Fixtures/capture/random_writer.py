"""Writes the tables of `RandomExchangeTests` with a library: random_writer.py LIBRARY, one request a line as JSON.

The tables are there. A request is an array, the name of a method and its arguments: `open` a database, one of the kinds
of writes, which has the values of the test's random numbers, `renew` a table as migrations do, or `vacuum`. The answer
is the error, if there is one, and the line `done`.
"""

import json
import re
import sqlite3
import sys


class Writer:
    """What is written is the same for all; how, each library says in the methods that it overrides."""

    def pick(self, table, order, salt, condition="1"):
        """A row as a dictionary; None if there is none."""
        found = self.query(
            f"SELECT * FROM {table} WHERE {condition} ORDER BY ({order} * 7919 + {salt}) % 1009, {order} LIMIT 1"
        )
        return found[0] if found else None

    def key(self, table, salt):
        row = self.pick(table, "id", salt)
        return row and row["id"]

    def row(self, w, mark, value):
        folder = self.key("folder", w["salt"]) if w["filed"] else None
        body = self.query(f"SELECT {value} AS v")[0]["v"]
        return {"mark": mark, "code": w["code"], "body": body, "n": w["n"], "folder": folder}

    def rows(self, w):
        return [self.row(w, mark, value) for mark, value in zip(w["marks"], w["values"])]

    def insert_one(self, w):
        self.insert("folder", [{"mark": w["marks"][0], "name": "f"}])

    def insert_many(self, w):
        self.insert("item", [{**row, "code": None} for row in self.rows(w)])

    def ignore(self, w):
        self.insert("item", self.rows(w)[:1], "IGNORE")

    def replace_in_place(self, w):
        if item := self.pick("item", "id", w["salt"]):
            self.insert("item", [{**item, "body": self.rows(w)[0]["body"], "n": 7}], "REPLACE")

    def replace_by_code(self, w):
        self.insert("item", self.rows(w)[:1], "REPLACE")

    def update_one(self, w):
        row = self.rows(w)[0]
        if key := self.key("item", w["salt"]):
            self.update("item", {"body": row["body"], "folder": row["folder"]}, {"id": key})

    def update_many(self, w):
        self.update("item", {"n": w["n"] % 3}, {})

    def rekey(self, w):
        if key := self.key("item", w["salt"]):
            self.update("item", {"id": key + 1000}, {"id": key})

    def replace_code(self, w):
        self.sql("UPDATE OR REPLACE item SET code = ? WHERE id = ?", w["code"], self.key("item", w["salt"]))

    def fail(self, w):
        self.sql("UPDATE OR FAIL item SET code = ? WHERE id > ?", w["code"], self.key("item", w["salt"]))

    def delete_one(self, w):
        if key := self.key("item", w["salt"]):
            self.delete("item", {"id": key})

    def delete_all(self, w):
        self.delete("item" if w["salt"] % 4 == 0 else "item_tag", {})

    def delete_folder(self, w):
        if key := self.key("folder", w["salt"]):
            self.delete("folder", {"id": key})

    def own_tag(self, w):
        return self.pick("tag", "rowid", w["salt"], f"name LIKE '{w['name']}%'")

    def link(self, w):
        item, tag = self.key("item", w["salt"]), self.own_tag(w)
        if item and tag:
            self.insert("item_tag", [{"item": item, "tag": tag["name"], "mark": w["marks"][0]}], "IGNORE")

    def tag(self, w):
        self.insert("tag", [{"name": w["code"], "mark": w["marks"][0], "n": 0}], "IGNORE")

    def replace_tag(self, w):
        if tag := self.own_tag(w):
            self.insert("tag", [{**tag, "n": (tag["n"] or 0) + 1}], "REPLACE")

    def respell_tag(self, w):
        self.update("tag", {"name": w["code"].upper()}, {"name": w["code"]})

    def delete_tag(self, w):
        self.delete("tag", {"name": w["code"]})

    def vacuum(self):
        self.sql("VACUUM")


def assigned(values, separator):
    return separator.join(f"{name} = ?" for name in values)


class Python(Writer):
    """The standard library, as programs without an ORM use it."""

    def open(self, path, pragmas):
        self.db = sqlite3.connect(path, timeout=30)
        self.db.row_factory = sqlite3.Row
        self.foreign_keys = pragmas["foreign_keys"]
        for name, value in pragmas.items():
            self.db.execute(f"PRAGMA {name} = {value}")

    def query(self, sql):
        return [dict(row) for row in self.db.execute(sql).fetchall()]

    def sql(self, sql, *values):
        with self.db:
            self.db.execute(sql, values)

    def insert(self, table, rows, conflict="ABORT"):
        places = ", ".join("?" * len(rows[0]))
        with self.db:
            self.db.executemany(
                f"INSERT OR {conflict} INTO {table} ({', '.join(rows[0])}) VALUES ({places})",
                [tuple(row.values()) for row in rows],
            )

    def upsert(self, w):
        row = self.rows(w)[0]
        self.sql(
            f"INSERT INTO item ({', '.join(row)}) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (code) DO UPDATE SET n = n + 1, body = excluded.body",
            *row.values(),
        )

    def update(self, table, values, where):
        condition = assigned(where, " AND ") or "1"
        self.sql(f"UPDATE {table} SET {assigned(values, ', ')} WHERE {condition}", *values.values(), *where.values())

    def delete(self, table, where):
        condition = f" WHERE {assigned(where, ' AND ')}" if where else ""
        self.sql(f"DELETE FROM {table}{condition}", *where.values())

    def rollback(self, w):
        try:
            with self.db:
                self.db.execute("INSERT INTO item (mark, code) VALUES (?, ?)", (w["marks"][0], w["code"]))
                self.db.execute("DELETE FROM item_tag")
                self.db.execute("UPDATE item SET n = -1")
                raise InterruptedError
        except InterruptedError:
            pass

    def renew(self):
        self.db.executescript(
            f"""
            PRAGMA foreign_keys = OFF;
            BEGIN;
            CREATE TABLE folder_new (id INTEGER PRIMARY KEY, mark TEXT, name TEXT);
            INSERT INTO folder_new SELECT id, mark, name || '+' FROM folder;
            DROP TABLE folder;
            ALTER TABLE folder_new RENAME TO folder;
            COMMIT;
            PRAGMA foreign_keys = {self.foreign_keys};
            """
        )


class SQLAlchemy(Writer):
    def open(self, path, pragmas):
        from sqlalchemy import Column, ForeignKey, Integer, MetaData, Table, Text, create_engine, event, types

        class Anything(types.UserDefinedType):
            cache_ok = True

            def get_col_spec(self):
                return ""

        self.engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30})

        @event.listens_for(self.engine, "connect")
        def connected(db, _):
            for name, value in pragmas.items():
                db.execute(f"PRAGMA {name} = {value}")

        meta = MetaData()
        text = lambda name, **options: Column(name, Text, **options)
        number = lambda name, *more, **options: Column(name, Integer, *more, **options)
        self.tables = {
            "folder": Table("folder", meta, number("id", primary_key=True), text("mark"), text("name")),
            "item": Table(
                "item", meta, number("id", primary_key=True), text("mark"), text("code", unique=True),
                Column("body", Anything), number("n"), number("folder", ForeignKey("folder.id")),
            ),
            "tag": Table("tag", meta, text("name", primary_key=True), text("mark"), number("n")),
            "item_tag": Table(
                "item_tag", meta, number("item", primary_key=True), text("tag", primary_key=True), text("mark")
            ),
        }

    def query(self, sql):
        with self.engine.connect() as db:
            return [dict(row) for row in db.exec_driver_sql(sql).mappings().all()]

    def sql(self, sql, *values):
        with self.engine.begin() as db:
            db.exec_driver_sql(sql, values)

    def insert(self, table, rows, conflict="ABORT"):
        with self.engine.begin() as db:
            db.execute(self.tables[table].insert().prefix_with(f"OR {conflict}"), rows)

    def upsert(self, w):
        from sqlalchemy.dialects.sqlite import insert

        item = self.tables["item"]
        added = insert(item).values(self.rows(w)[0])
        with self.engine.begin() as db:
            changed = {"n": item.c.n + 1, "body": added.excluded.body}
            db.execute(added.on_conflict_do_update(index_elements=["code"], set_=changed))

    def where(self, statement, where):
        return statement.where(*(statement.table.c[name] == value for name, value in where.items()))

    def update(self, table, values, where):
        with self.engine.begin() as db:
            db.execute(self.where(self.tables[table].update(), where).values(values))

    def delete(self, table, where):
        with self.engine.begin() as db:
            db.execute(self.where(self.tables[table].delete(), where))

    def rollback(self, w):
        with self.engine.connect() as db, db.begin() as transaction:
            db.execute(self.tables["item"].insert().values(mark=w["marks"][0], code=w["code"]))
            db.execute(self.tables["item_tag"].delete())
            db.execute(self.tables["item"].update().values(n=-1))
            transaction.rollback()

    def renew(self):
        """As Alembic's batch mode does it."""
        from alembic.migration import MigrationContext
        from alembic.operations import Operations
        from sqlalchemy import Text

        with self.engine.connect() as db:
            db.exec_driver_sql("PRAGMA foreign_keys = OFF")
            db.commit()
            with db.begin():
                operations = Operations(MigrationContext.configure(db))
                with operations.batch_alter_table("folder", recreate="always") as batch:
                    batch.alter_column("name", type_=Text, existing_type=Text, nullable=True)
                db.exec_driver_sql("UPDATE folder SET name = name || '+'")
        self.engine.dispose()

    def vacuum(self):
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            db.exec_driver_sql("VACUUM")


class Peewee(Writer):
    def open(self, path, pragmas):
        import peewee

        self.db = db = peewee.SqliteDatabase(path, pragmas=pragmas, timeout=30)
        self.foreign_keys = pragmas["foreign_keys"]

        class Model(peewee.Model):
            class Meta:
                database = db

        class Folder(Model):
            mark, name = peewee.TextField(null=True), peewee.TextField(null=True)

        class Item(Model):
            mark, code = peewee.TextField(null=True), peewee.TextField(null=True, unique=True)
            body, n = peewee.BareField(null=True), peewee.IntegerField(null=True)
            folder = peewee.ForeignKeyField(Folder, null=True, column_name="folder")

        class Tag(Model):
            name, mark = peewee.TextField(primary_key=True), peewee.TextField(null=True)
            n = peewee.IntegerField(null=True)

        class ItemTag(Model):
            item, tag = peewee.IntegerField(), peewee.TextField()
            mark = peewee.TextField(null=True)

            class Meta:
                table_name = "item_tag"
                primary_key = peewee.CompositeKey("item", "tag")

        self.tables = {"folder": Folder, "item": Item, "tag": Tag, "item_tag": ItemTag}

    def query(self, sql):
        cursor = self.db.execute_sql(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def sql(self, sql, *values):
        self.db.execute_sql(sql, values)

    def insert(self, table, rows, conflict="ABORT"):
        with self.db.atomic():
            self.tables[table].insert_many(rows).on_conflict(conflict).execute()

    def upsert(self, w):
        item = self.tables["item"]
        item.insert(self.rows(w)[0]).on_conflict(
            conflict_target=[item.code], preserve=[item.body], update={item.n: item.n + 1}
        ).execute()

    def where(self, statement, table, where):
        for name, value in where.items():
            statement = statement.where(getattr(self.tables[table], name) == value)
        return statement.execute()

    def update(self, table, values, where):
        self.where(self.tables[table].update(values), table, where)

    def delete(self, table, where):
        self.where(self.tables[table].delete(), table, where)

    def rollback(self, w):
        with self.db.atomic() as transaction:
            self.tables["item"].create(mark=w["marks"][0], code=w["code"])
            self.tables["item_tag"].delete().execute()
            self.tables["item"].update(n=-1).execute()
            transaction.rollback()

    def renew(self):
        from playhouse.migrate import SqliteMigrator, migrate

        self.sql("PRAGMA foreign_keys = OFF")
        migrate(SqliteMigrator(self.db).drop_not_null("folder", "name"))
        self.sql("UPDATE folder SET name = name || '+'")
        self.sql(f"PRAGMA foreign_keys = {self.foreign_keys}")


class SQLiteUtils(Writer):
    def open(self, path, pragmas):
        import sqlite_utils

        self.db = sqlite_utils.Database(path, recursive_triggers=pragmas["recursive_triggers"])
        self.db.execute("PRAGMA busy_timeout = 30000")
        self.db.execute(f"PRAGMA foreign_keys = {pragmas['foreign_keys']}")

    def query(self, sql):
        return list(self.db.query(sql))

    def sql(self, sql, *values):
        with self.db.conn:
            self.db.execute(sql, values)

    def insert(self, table, rows, conflict="ABORT"):
        self.db[table].insert_all(rows, ignore=conflict == "IGNORE", replace=conflict == "REPLACE")

    def upsert(self, w):
        self.sql(
            "INSERT INTO item (mark, code, body, n, folder) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (code) DO UPDATE SET n = n + 1, body = excluded.body",
            *self.rows(w)[0].values(),
        )

    def update(self, table, values, where):
        if "id" in where and "id" not in values:
            self.db[table].update(where["id"], values)
        else:
            changed, condition = assigned(values, ", "), assigned(where, " AND ") or "1"
            self.sql(f"UPDATE {table} SET {changed} WHERE {condition}", *values.values(), *where.values())

    def delete(self, table, where):
        if "id" in where:
            self.db[table].delete(where["id"])
        else:
            self.db[table].delete_where(assigned(where, " AND ") or None, list(where.values()))

    def rollback(self, w):
        try:
            self.db.execute("BEGIN")
            self.db.execute("INSERT INTO item (mark, code) VALUES (?, ?)", (w["marks"][0], w["code"]))
            self.db.execute("DELETE FROM item_tag")
            self.db.execute("UPDATE item SET n = -1")
        finally:
            self.db.conn.rollback()

    def renew(self):
        self.db["folder"].transform(types={"name": str})
        self.sql("UPDATE folder SET name = name || '+'")

    def vacuum(self):
        self.db.vacuum()


class Django(Writer):
    def __init__(self):
        import django
        from django.conf import settings

        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "", "OPTIONS": {"timeout": 30}}},
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        )
        django.setup()
        from django.db import connection, models, transaction

        class Anything(models.Field):
            def db_type(self, connection):
                return ""

        text = lambda **options: models.TextField(null=True, **options)

        class Folder(models.Model):
            mark, name = text(), text()

            class Meta:
                app_label, db_table = "library", "folder"

        class Item(models.Model):
            mark, code, body, n = text(), text(unique=True), Anything(null=True), models.IntegerField(null=True)
            folder = models.ForeignKey(Folder, models.DO_NOTHING, null=True, db_column="folder")

            class Meta:
                app_label, db_table = "library", "item"

        class Tag(models.Model):
            name = models.TextField(primary_key=True)
            mark, n = text(), models.IntegerField(null=True)

            class Meta:
                app_label, db_table = "library", "tag"

        class ItemTag(models.Model):
            pk = models.CompositePrimaryKey("item_id", "tag_id")
            item = models.ForeignKey(Item, models.CASCADE, db_column="item")
            tag = models.ForeignKey(Tag, models.CASCADE, db_column="tag")
            mark = text()

            class Meta:
                app_label, db_table = "library", "item_tag"

        self.connection, self.transaction = connection, transaction
        self.tables = {"folder": Folder, "item": Item, "tag": Tag, "item_tag": ItemTag}

    def open(self, path, pragmas):
        self.connection.close()
        self.connection.settings_dict["NAME"] = path
        self.query(f"PRAGMA recursive_triggers = {pragmas['recursive_triggers']}")

    def query(self, sql):
        with self.connection.cursor() as cursor:
            # Django takes % for the beginning of a place.
            cursor.execute(sql.replace("%", "%%"), [])
            names = [column[0] for column in cursor.description or []]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    def sql(self, sql, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), values)

    def models(self, table, rows):
        """Objects, whose columns are named as fields are."""
        keys = {field.column: field.attname for field in self.tables[table]._meta.concrete_fields if field.column}
        return [self.tables[table](**{keys[name]: value for name, value in row.items()}) for row in rows]

    def insert(self, table, rows, conflict="ABORT"):
        if conflict == "REPLACE":
            # Django has no REPLACE: this is what programs write beside it.
            places = ", ".join("?" * len(rows[0]))
            self.sql(f"INSERT OR REPLACE INTO {table} ({', '.join(rows[0])}) VALUES ({places})", *rows[0].values())
        elif table == "folder":
            self.models(table, rows)[0].save(force_insert=True)
        else:
            self.tables[table].objects.bulk_create(self.models(table, rows), ignore_conflicts=conflict == "IGNORE")

    def upsert(self, w):
        item = self.models("item", self.rows(w)[:1])
        self.tables["item"].objects.bulk_create(
            item, update_conflicts=True, unique_fields=["code"], update_fields=["n", "body"]
        )

    def update(self, table, values, where):
        found = self.tables[table].objects.filter(**where)
        if "body" in values and (item := found.first()):
            # As forms do it: all columns are written.
            item.body, item.folder_id = values["body"], values["folder"]
            return item.save()
        found.update(**values)

    def delete(self, table, where):
        self.tables[table].objects.filter(**where).delete()

    def rollback(self, w):
        with self.transaction.atomic():
            self.models("item", self.rows(w)[:1])[0].save(force_insert=True)
            self.tables["item_tag"].objects.all().delete()
            self.tables["item"].objects.update(n=-1)
            self.transaction.set_rollback(True)

    def renew(self):
        from django.db import models

        folder = self.tables["folder"]
        new = models.TextField(null=True, default="none")
        new.set_attributes_from_name("name")
        new.model = folder
        with self.connection.schema_editor() as editor:
            editor.alter_field(folder, folder._meta.get_field("name"), new, strict=True)
        folder.objects.update(name=models.functions.Concat("name", models.Value("+")))


WRITERS = {writer.__name__: writer for writer in (Python, SQLAlchemy, Peewee, SQLiteUtils, Django)}


if __name__ == "__main__":
    writer = WRITERS[sys.argv[1]]()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            getattr(writer, re.sub("([A-Z])", r"_\1", name).lower())(*arguments)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
        print("done", flush=True)
