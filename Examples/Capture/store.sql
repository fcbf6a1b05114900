-- The database of a music store, as the app has had it for years: nothing in it knows of synchronization.
PRAGMA journal_mode = WAL;
CREATE TABLE artist (artist_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE album (
  album_id INTEGER PRIMARY KEY, title TEXT NOT NULL,
  artist_id INTEGER NOT NULL REFERENCES artist ON DELETE CASCADE);
CREATE TABLE genre (genre_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE track (
  track_id INTEGER PRIMARY KEY, name TEXT NOT NULL, album_id INTEGER NOT NULL REFERENCES album ON DELETE CASCADE,
  genre_id INTEGER REFERENCES genre ON DELETE SET NULL, composer TEXT, milliseconds INTEGER NOT NULL,
  unit_price NUMERIC NOT NULL DEFAULT 0.99);
CREATE INDEX track_album ON track (album_id);
CREATE TABLE playlist (playlist_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE playlist_track (
  playlist_id INTEGER NOT NULL REFERENCES playlist ON DELETE CASCADE,
  track_id INTEGER NOT NULL REFERENCES track ON DELETE CASCADE, PRIMARY KEY (playlist_id, track_id)) WITHOUT ROWID;
CREATE TABLE customer (
  customer_id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE COLLATE NOCASE, city TEXT);
CREATE TABLE invoice (
  invoice_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer, at TEXT NOT NULL,
  total NUMERIC NOT NULL DEFAULT 0);
CREATE TABLE invoice_line (
  invoice_line_id INTEGER PRIMARY KEY, invoice_id INTEGER NOT NULL REFERENCES invoice ON DELETE CASCADE,
  track_id INTEGER NOT NULL REFERENCES track, unit_price NUMERIC NOT NULL, quantity INTEGER NOT NULL);
-- A trigger of the app: capture has other devices take its work over, and not do it twice.
CREATE TRIGGER invoice_total AFTER INSERT ON invoice_line BEGIN
  UPDATE invoice SET total = total + NEW.unit_price * NEW.quantity WHERE invoice_id = NEW.invoice_id; END;
-- A table that stays on the device.
CREATE TABLE search_history (words TEXT, at TEXT);
