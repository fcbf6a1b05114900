#!/usr/bin/env bash
# unpack.bash FIXTURE FOLDER: makes a data directory of a fixture in this folder, as the server left it: for its owner
# alone.
set -euo pipefail
mkdir -p "$2"
for file in "$(dirname "${BASH_SOURCE[0]}")/$1"/*; do
    case "$file" in
    *.gz) gzip -dc "$file" >"$2/$(basename "$file" .gz)" ;;
    *) cp "$file" "$2" ;;
    esac
done
chmod 700 "$2" && chmod 600 "$2"/*
