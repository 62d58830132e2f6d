#!/bin/sh
# One shard for each rank. Start one rank on each host, for ranks on one host would disturb each other:
#   mpirun --map-by ppr:1:node mpirun.sh plan.toml --rounds 24 --seed 1
#   fsarena merge runs
set -eu
# OpenMPI, or MPICH and Intel MPI.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:?start this script with mpirun}}
size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:?start this script with mpirun}}
exec "${FSARENA:-fsarena}" run "$@" --quiet --runs "${RUNS:-runs}" --shard "$rank/$size"
