#!/bin/sh
# Brings the database to this version's schema, lets Grafana read one tenant of it, and makes the tokens, once.
set -eu
secrets=${SECRETS:-/secrets}
PGPASSWORD=$(cat "$secrets/database/owner")
export PGPASSWORD

tachograph db upgrade
tachograph db grafana-role --tenant default --password-file "$secrets/grafana/database"

token() { # token FILE NAME OPTIONS: made unless the file is there
    file=$1 name=$2
    shift 2
    [ ! -s "$file" ] || return 0
    tachograph token create "$name" "$@" >"$file.new"
    chmod 0444 "$file.new"
    mv "$file.new" "$file"
}

token "$secrets/tokens/prometheus" prometheus --scope read
token "$secrets/tokens/agents" agents --scope ingest
token "$secrets/rehearsal/token" rehearsal --scope ingest --scope read
token "$secrets/people/token" people --scope read --scope operate
