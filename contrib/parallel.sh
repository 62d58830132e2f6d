#!/bin/sh
# Runs one shard on each host, by GNU parallel and ssh. The hosts share the runs directory:
#   HOSTS=a,b,c parallel.sh plan.toml --rounds 24 --seed 1
#   fsarena merge runs
# In HOSTS, `:` stands for this machine, without ssh.
set -eu
hosts=${HOSTS:?set HOSTS to the names of the hosts, separated by commas}
count=$(printf '%s\n' "$hosts" | tr , '\n' | wc -l)
exec parallel --sshlogin "$hosts" --jobs 1 --workdir "$PWD" --halt soon,fail=1 --quote \
    "${FSARENA:-fsarena}" run --quiet --runs "${RUNS:-runs}" --shard "{}/$count" "$@" ::: $(seq "$count")
