#!/usr/bin/env bash
# Two shops with a database each, which know nothing of each other, are synchronized: in a folder of their own, with a
# server in development mode. anabranch has to be in the path; PYTHON is a Python with Django.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(mktemp -d)"
cd "$folder"
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$folder"' EXIT
shop() { "${PYTHON:-python3}" -B "$here/shop.py" "$@"; }

: >listening
anabranch serve --dev --data server --listen 127.0.0.1:0 >listening 2>server.log &
until [ -s listening ]; do kill -0 $! || { cat server.log; exit 1; }; sleep 0.05; done
sync() {
    anabranch capture run --db "$1.sqlite" --data "$1" --path '/"music"' --url "ws://127.0.0.1:$(sed 's/.*://' listening)"
}

# Oslo has the music. Porto begins with an empty database.
for name in oslo porto; do sqlite3 "$name.sqlite" <"$here/store.sql" >/dev/null; done
sqlite3 oslo.sqlite <"$here/music.sql"
for name in oslo porto; do
    anabranch capture install --db "$name.sqlite" --rules "$here/rules.json" \
        --tables artist,album,genre,track,playlist,playlist_track,customer,invoice,invoice_line
done
for name in oslo porto; do sync "$name"; done

echo "# Both sell, offline"
shop oslo.sqlite sell ann@example.com 'Track 7' 'Track 8'
shop oslo.sqlite playlist 'New' 'Track 1' 'Track 2'
shop oslo.sqlite rename 'Artist 3' 'The Same Artist'
shop porto.sqlite sell bob@example.com 'Track 14'
shop porto.sqlite sell eve@example.com 'Track 1'
shop porto.sqlite playlist 'New' 'Track 3'
for name in oslo porto oslo porto; do sync "$name" >/dev/null; done

for name in oslo porto; do
    echo "# $name"
    shop "$name.sqlite" report
    sqlite3 "$name.sqlite" 'SELECT count(*), sum(total) FROM invoice'
    anabranch capture compare --db "$name.sqlite" --data "$name" --path '/"music"'
done

echo "# The databases are as they were before"
for name in oslo porto; do
    anabranch capture uninstall --db "$name.sqlite"
    sqlite3 "$name.sqlite" "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sync%'"
done
