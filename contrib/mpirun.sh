#!/bin/sh
# Runs one shard in each rank. Start one rank on each host, because ranks on one host disturb each other:
#   mpirun --map-by ppr:1:node mpirun.sh plan.toml --rounds 24 --seed 1
#   fsarena merge runs
set -eu
# Open MPI sets the first variable, MPICH and Intel MPI the second.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:?start this script with mpirun}}
size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:?start this script with mpirun}}
exec "${FSARENA:-fsarena}" run --quiet --runs "${RUNS:-runs}" --shard "$rank/$size" "$@"
