"""Writes a SQLite database with a library as applications do: writers.py LIBRARY FILE make|write|migrate|clear.

`make` makes the tables author and book. `write` inserts, updates, upserts, replaces, writes in bulk, and deletes, with
cascades. `migrate` changes a table by the library's own means, which make it anew, so that its triggers are gone, and
writes once more. `clear` deletes all rows, rewrites the file, and inserts the book `last`.
"""

import sqlite3
import sys

TABLES = """
CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, price REAL,
  author_id INTEGER REFERENCES author ON DELETE CASCADE);
"""


class Python:
    """The standard library, as programs without an ORM use it."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=30)
        self.db.execute("PRAGMA foreign_keys = ON")

    def make(self):
        self.db.executescript(TABLES)

    def write(self):
        with self.db:
            self.db.executemany("INSERT INTO author VALUES (?, ?)", [(1, "Ann"), (2, "Bob"), (3, "Cleo")])
            books = [(f"t{i}", i / 4, i % 3 + 1) for i in range(30)]
            self.db.executemany("INSERT INTO book (title, price, author_id) VALUES (?, ?, ?)", books)
        with self.db:
            self.db.execute("UPDATE book SET price = price + 1 WHERE author_id = 1")
            self.db.execute("INSERT INTO author (name) VALUES ('Ann') ON CONFLICT (name) DO UPDATE SET name = 'Anna'")
            self.db.execute("INSERT OR REPLACE INTO book VALUES (4, 'replaced', 0, 2)")
            self.db.execute("REPLACE INTO author VALUES (9, 'Bob')")
            self.db.execute("DELETE FROM author WHERE name = 'Cleo'")

    def migrate(self):
        self.db.executescript(
            """
            PRAGMA foreign_keys = OFF;
            BEGIN;
            CREATE TABLE book_new (id INTEGER PRIMARY KEY, title TEXT NOT NULL DEFAULT '', price REAL,
              author_id INTEGER REFERENCES author ON DELETE CASCADE);
            INSERT INTO book_new SELECT id, upper(title), price, author_id FROM book;
            DROP TABLE book;
            ALTER TABLE book_new RENAME TO book;
            COMMIT;
            """
        )
        self.db.execute("INSERT INTO book (title) VALUES ('after')")
        self.db.commit()

    def clear(self):
        with self.db:
            self.db.execute("DELETE FROM author")
            self.db.execute("DELETE FROM book")
        self.db.execute("VACUUM")
        with self.db:
            self.db.execute("INSERT INTO book (title) VALUES ('last')")


class SQLAlchemy:
    def __init__(self, path):
        from sqlalchemy import Column, Float, ForeignKey, Integer, MetaData, Table, Text, create_engine

        self.engine = create_engine(f"sqlite:///{path}")
        self.meta = MetaData()
        self.author = Table("author", self.meta, Column("id", Integer, primary_key=True), Column("name", Text, unique=True))
        self.book = Table(
            "book", self.meta, Column("id", Integer, primary_key=True), Column("title", Text), Column("price", Float),
            Column("author_id", Integer, ForeignKey("author.id", ondelete="CASCADE")),
        )

    def make(self):
        self.meta.create_all(self.engine)

    def write(self):
        from sqlalchemy.dialects.sqlite import insert

        author, book = self.author, self.book
        with self.engine.begin() as db:
            db.execute(author.insert(), [{"name": name} for name in ("Ann", "Bob", "Cleo")])
            db.execute(book.insert(), [{"title": f"t{i}", "price": i / 4, "author_id": i % 3 + 1} for i in range(30)])
        with self.engine.begin() as db:
            db.execute(book.update().where(book.c.author_id == 1).values(price=book.c.price + 1))
            upsert = insert(author).values(name="Ann")
            db.execute(upsert.on_conflict_do_update(index_elements=["name"], set_={"name": "Anna"}))
            db.execute(insert(author).values(id=9, name="Bob").prefix_with("OR REPLACE"))
            # Foreign keys are off, so the books of the author stay and lead nowhere.
            db.execute(author.delete().where(author.c.name == "Cleo"))
            db.execute(book.delete().where(book.c.author_id == 3))

    def migrate(self):
        """As Alembic's batch mode does it."""
        from alembic.migration import MigrationContext
        from alembic.operations import Operations
        from sqlalchemy import Text

        with self.engine.begin() as db:
            operations = Operations(MigrationContext.configure(db))
            with operations.batch_alter_table("book", recreate="always") as batch:
                batch.alter_column("title", type_=Text, existing_type=Text, nullable=True)
            db.execute(self.book.insert(), [{"title": "after"}])

    def clear(self):
        with self.engine.begin() as db:
            db.execute(self.book.delete())
            db.execute(self.author.delete())
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            db.exec_driver_sql("VACUUM")
        with self.engine.begin() as db:
            db.execute(self.book.insert(), [{"title": "last"}])


class Peewee:
    def __init__(self, path):
        import peewee

        self.db = db = peewee.SqliteDatabase(path, pragmas={"foreign_keys": 1})

        class Author(peewee.Model):
            name = peewee.TextField(unique=True, null=True)

            class Meta:
                database = db

        class Book(peewee.Model):
            title = peewee.TextField(null=True)
            price = peewee.FloatField(null=True)
            author = peewee.ForeignKeyField(Author, null=True, on_delete="CASCADE")

            class Meta:
                database = db

        self.author, self.book = Author, Book

    def make(self):
        self.db.create_tables([self.author, self.book])

    def write(self):
        authors = [self.author.create(name=name) for name in ("Ann", "Bob", "Cleo")]
        with self.db.atomic():
            self.book.insert_many([{"title": f"t{i}", "price": i / 4, "author": authors[i % 3]} for i in range(30)]).execute()
        self.book.update(price=self.book.price + 1).where(self.book.author == authors[0]).execute()
        self.author.insert(name="Ann").on_conflict(
            conflict_target=[self.author.name], update={self.author.name: "Anna"}
        ).execute()
        self.author.replace(name="Bob").execute()
        authors[2].delete_instance()
        first = self.book.select().first()
        first.title = "saved"
        first.save()

    def migrate(self):
        from playhouse.migrate import SqliteMigrator, migrate

        migrate(SqliteMigrator(self.db).add_not_null("book", "title"))
        self.book.create(title="after")

    def clear(self):
        self.book.delete().execute()
        self.author.delete().execute()
        self.db.execute_sql("VACUUM")
        self.book.create(title="last")


class SQLiteUtils:
    def __init__(self, path):
        import sqlite_utils

        self.db = sqlite_utils.Database(path)

    def make(self):
        self.db.executescript(TABLES)

    def write(self):
        self.db["author"].insert_all([{"id": i + 1, "name": name} for i, name in enumerate(("Ann", "Bob", "Cleo"))])
        self.db["book"].insert_all({"id": i + 1, "title": f"t{i}", "price": i / 4, "author_id": i % 3 + 1} for i in range(30))
        self.db["author"].upsert({"id": 1, "name": "Anna"}, pk="id")
        self.db["author"].insert({"id": 9, "name": "Bob"}, replace=True)
        self.db["book"].update(3, {"title": "updated"})
        self.db["book"].delete_where("author_id = 3")

    def migrate(self):
        self.db["book"].transform(drop={"price"})
        self.db["book"].insert({"id": 99, "title": "after"})

    def clear(self):
        for name in ("book", "author"):
            self.db[name].delete_where()
        self.db.vacuum()
        self.db["book"].insert({"id": 1, "title": "last"})


class Django:
    def __init__(self, path):
        import django
        from django.conf import settings

        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path}},
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        )
        django.setup()
        from django.db import models

        class Author(models.Model):
            name = models.TextField(unique=True, null=True)

            class Meta:
                app_label, db_table = "library", "author"

        class Book(models.Model):
            title = models.TextField(null=True)
            price = models.FloatField(null=True)
            author = models.ForeignKey(Author, models.CASCADE, null=True)

            class Meta:
                app_label, db_table = "library", "book"

        self.author, self.book = Author, Book

    def make(self):
        from django.db import connection

        with connection.schema_editor() as editor:
            editor.create_model(self.author)
            editor.create_model(self.book)

    def write(self):
        from django.db.models import F

        authors = [self.author.objects.create(name=name) for name in ("Ann", "Bob", "Cleo")]
        self.book.objects.bulk_create([self.book(title=f"t{i}", price=i / 4, author=authors[i % 3]) for i in range(30)])
        self.book.objects.filter(author=authors[0]).update(price=F("price") + 1)
        self.author.objects.update_or_create(name="Ann", defaults={"name": "Anna"})
        self.author.objects.bulk_create(
            [self.author(id=2, name="Rob")], update_conflicts=True, unique_fields=["id"], update_fields=["name"]
        )
        self.book.objects.filter(author=authors[2]).delete()
        authors[2].delete()
        first = self.book.objects.order_by("id").first()
        first.title = "saved"
        first.save()

    def migrate(self):
        from django.db import connection, models

        old = self.book._meta.get_field("title")
        new = models.TextField(default="none")
        new.set_attributes_from_name("title")
        new.model = self.book
        with connection.schema_editor() as editor:
            editor.alter_field(self.book, old, new)
        self.book.objects.create(title="after")

    def clear(self):
        from django.db import connection

        self.book.objects.all().delete()
        self.author.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")
        self.book.objects.create(title="last")


WRITERS = {writer.__name__: writer for writer in (Python, SQLAlchemy, Peewee, SQLiteUtils, Django)}

if __name__ == "__main__":
    library, path, phase = sys.argv[1:]
    getattr(WRITERS[library](path), phase)()
