#!/usr/bin/env bash
# Runs the commands of a snapshot, one after the other in one shell, as `CommandSnapshot` in Tests/CompatibilityTests
# asks for it: session.bash STEPS COUNT. Command number N is in the file STEPS/N; what it prints goes to STEPS/N.out and
# STEPS/N.err, its exit status to STEPS/N.status.
#
# $FIXTURES is this folder, $PATH begins with the one of the commands under test, and the current folder is empty.
set -o pipefail
trap 'kill $(jobs -p) 2>/dev/null' EXIT

# What commands of snapshots can use beside the commands under test.

# unpack FIXTURE FOLDER: a data directory as a server left it.
unpack() { "$FIXTURES/unpack.bash" "$@"; }

# damage head|tail TEXT FILE: the first letter of the first or last place of a text in a file of a store becomes an X.
damage() {
    local place
    place="$(grep -abo "$2" "$3" | "$1" -n 1 | cut -d: -f1)"
    printf X | dd of="$3" bs=1 seek="$place" conv=notrunc status=none
}

# refused COMMAND…: of an error only the first line; what follows it is help.
refused() {
    { "$@" 2>&1 >&5 | sed -n '/^Error/p' >&2; } 5>&1
}

# masked [FILE]: without what is different each time: times of the log, ports and random identifiers.
masked() {
    sed -E 's/^[0-9T:.-]{23}Z /<time> /; s/127\.0\.0\.1:[1-9][0-9]*/127.0.0.1:<port>/g; s/[0-9a-f]{24}/<id>/g' "$@"
}

# start ARGUMENT…: `anabranch serve` in the background. PORT is where it listens, `log` what it writes.
start() {
    rm -f listening && mkfifo listening
    anabranch serve --listen 127.0.0.1:0 "$@" >listening 2>log &
    server=$!
    read -r line <listening
    PORT="${line##*:}"
}

# stop: ends the server in order; the exit status is the server's.
stop() {
    kill -TERM "$server"
    wait "$server"
}

# postgres: a PostgreSQL server with a database, which ends with the session; DB is its URI. It does not run as root.
postgres() {
    local programs user=()
    programs="$(printf '%s\n' /usr/lib/postgresql/*/bin | sort --version-sort | tail -n 1)"
    mkdir -p postgres
    if [[ "$(id -u)" == 0 ]]; then
        chown postgres postgres
        user=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    fi
    "${user[@]}" "$programs/initdb" -D "$PWD/postgres/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >log 2>&1 ||
        return
    "${user[@]}" "$programs/postgres" -D "$PWD/postgres/data" -F -c listen_addresses= \
        -c unix_socket_directories="$PWD/postgres" >>log 2>&1 &
    DB="postgres://postgres@/postgres?host=$PWD/postgres"
    until "$programs/pg_isready" -q -d "$DB"; do kill -0 $! || return; done
}

# request PORT METHOD PATH [TOKEN [BODY]]: status line and body of an HTTP answer.
request() {
    exec 4<>"/dev/tcp/127.0.0.1/$1"
    printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n' "$2" "$3" "$1" >&4
    if [[ -n "${4-}" ]]; then printf 'Authorization: Bearer %s\r\n' "$4" >&4; fi
    if [[ "$2" == POST ]]; then
        printf 'Content-Type: application/json\r\nContent-Length: %s\r\n' "$(printf %s "${5-}" | wc -c)" >&4
    fi
    printf '\r\n%s' "${5-}" >&4
    tr -d '\r' <&4 | sed -e '2,/^$/d'
    echo
    exec 4<&-
}

# connect PARTITION: a WebSocket client that binds a new file and gets its ident; it stays until `disconnect`.
connect() {
    local text
    exec 3<>"/dev/tcp/127.0.0.1/$PORT"
    printf '%s\r\n' 'GET /realm-sync HTTP/1.1' "Host: 127.0.0.1:$PORT" 'Upgrade: websocket' 'Connection: Upgrade' \
        'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' 'Sec-WebSocket-Version: 13' \
        'Sec-WebSocket-Protocol: com.mongodb.realm-sync#14' '' >&3
    while read -r line <&3 && [[ "$line" != $'\r' ]]; do :; done
    text="bind 1 ${#1} 0 1 0"$'\n'"$1"
    printf "\\x82\\x$(printf %02x $((128 + ${#text})))\\0\\0\\0\\0%s" "$text" >&3
    # The answer is a frame whose text ends with a newline.
    read -r line <&3
}

disconnect() { exec 3<&-; }

for ((step = 0; step < $2; step++)); do
    # shellcheck source=/dev/null
    source "$1/$step" >"$1/$step.out" 2>"$1/$step.err" </dev/null
    echo $? >"$1/$step.status"
done
