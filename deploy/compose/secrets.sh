#!/bin/sh
# Makes the passwords of the composed services, once: a file each, random, in the volumes of those who need them.
set -eu
secrets=${SECRETS:-/secrets}

secret() { # secret FILE: 48 hexadecimal digits, unless the file is there
    [ ! -s "$1" ] || return 0
    python -c 'import secrets; print(secrets.token_hex(24), end="")' >"$1.new"
    chmod 0444 "$1.new" # in a volume that is mounted where it is needed and nowhere else
    mv "$1.new" "$1"
}

secret "$secrets/database/owner"
secret "$secrets/grafana/admin"
secret "$secrets/grafana/database"
