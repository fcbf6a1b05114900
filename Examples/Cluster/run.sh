#!/usr/bin/env bash
# Two servers over one database, and nginx in front of them; a phone writes while each of them is replaced in turn, as by
# a new release, and one is killed:
#     Examples/Cluster/run.sh postgres://localhost/notes
# The database is an empty one. anabranch has to be in the path, built with the trait Postgres, and nginx.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
db="$1"
folder="$(mktemp -d)"
cd "$folder"
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$folder"' EXIT

# A port that nobody uses.
port() { python3 -c 'import socket as s; print(s.create_server(("127.0.0.1", 0)).getsockname()[1])'; }

declare -A process address
serve() {
    : >"$1.out"
    anabranch serve --dev --data "$1" --store "$db" --shared --listen "127.0.0.1:${address[$1]}" >"$1.out" 2>"$1.log" &
    process[$1]=$!
    until [ -s "$1.out" ]; do kill -0 $! || { cat "$1.log"; exit 1; }; sleep 0.05; done
}
stop() { kill "-$2" "${process[$1]}" && { wait "${process[$1]}" || true; } 2>/dev/null; }

echo "# Two servers, and nginx"
for name in north south; do
    address[$name]="$(port)"
    serve "$name"
done
entrance="$(port)"
mkdir run
sed "s/NORTH/127.0.0.1:${address[north]}/; s/SOUTH/127.0.0.1:${address[south]}/; s/ENTRANCE/127.0.0.1:$entrance/" \
    "$here/nginx.conf" >nginx.conf
nginx -p "$folder" -c nginx.conf -g 'daemon off;' 2>nginx.log &
url="ws://127.0.0.1:$entrance"

phone() { anabranch client "${@:2}" --data "$1" --path '/"notes"'; }
class='{"class":"Note","kind":"top-level","key":{"name":"_id","type":"int"},'
class+='"properties":[{"name":"title","type":"string"}]}'
note() { printf '["Note",{"int":"%s"},{"title":"%s"}]\n' "$1" "$2" | phone ann write >/dev/null; }
sync() { phone "$1" read --url "$url" >/dev/null; }

echo "$class" | phone ann write >/dev/null
note 1 "with both"
sync ann

echo "# Each is replaced in turn"
number=1
for name in north south; do
    stop "$name" TERM
    number=$((number + 1))
    note "$number" "without $name"
    sync ann
    serve "$name"
done

echo "# One is killed"
stop north KILL
note 4 "after north was killed"
sync ann
sync bob
phone bob query Note TRUEPREDICATE
