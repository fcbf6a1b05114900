#!/usr/bin/env bash
# Two phones write visits, offline; a manager asks for a report in psql and changes what phones show:
#     Examples/Bridge/run.sh postgres://localhost/visits
# The database is an empty one. anabranch has to be in the path, built with the trait Postgres, and psql.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
db="$1"
folder="$(mktemp -d)"
cd "$folder"
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$folder"' EXIT

: >listening
anabranch serve --dev --data server --listen 127.0.0.1:0 >listening 2>server.log &
until [ -s listening ]; do kill -0 $! || { cat server.log; exit 1; }; sleep 0.05; done
url="ws://127.0.0.1:$(sed 's/.*://' listening)"
phone() { anabranch client "${@:2}" --data "$1" --path '/"visits"'; }
sync() { phone "$1" read --url "$url" >/dev/null; }
bridge() { anabranch bridge run --db "$db" --data bridge --path '/"visits"' --url "$url"; }

echo "# Phones write, and come online later"
for name in ann bob; do cat "$here/classes.jsonl" "$here/$name.jsonl" | phone "$name" write; done
for name in ann bob; do sync "$name"; done

echo "# Tables for the classes"
sync manager
anabranch bridge init --from-file --data manager --path '/"visits"' >tables.sql
cat tables.sql
psql -qX -v ON_ERROR_STOP=1 "$db" <tables.sql
anabranch bridge install --db "$db" --tables Site,Visit
bridge

echo "# The report"
psql -qX "$db" -f "$here/report.sql"

echo "# SQL writes, and phones have it"
psql -qX "$db" -c "UPDATE \"Visit\" SET tags = tags || '{paid}' WHERE inspector = 'bob'"
bridge
sync bob
phone bob query Visit 'ANY tags == "paid"'

anabranch bridge compare --db "$db" --data bridge --path '/"visits"'
anabranch bridge uninstall --db "$db"
