-- Artists, albums and tracks that nobody has recorded.
INSERT INTO genre (name) VALUES ('Rock'), ('Jazz'), ('Metal'), ('Classical'), ('Samba');
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO artist (name) SELECT 'Artist ' || i FROM n;
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 120)
INSERT INTO album (title, artist_id) SELECT 'Album ' || i, 1 + i % 40 FROM n;
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
INSERT INTO track (name, album_id, genre_id, milliseconds, unit_price)
SELECT 'Track ' || i, 1 + i % 120, 1 + i % 5, 90000 + i * 137 % 300000, iif(i % 7 = 0, 1.99, 0.99) FROM n;
INSERT INTO playlist (name) VALUES ('Favourites'), ('For the road');
INSERT INTO playlist_track SELECT 1 + track_id / 10 % 2, track_id FROM track WHERE track_id % 10 = 0;
INSERT INTO customer (name, email, city) VALUES ('Ann', 'ann@example.com', 'Oslo'), ('Bob', 'bob@example.com', 'Porto');
