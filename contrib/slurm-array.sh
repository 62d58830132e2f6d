#!/bin/sh
# One shard for each task of an array of jobs, and the merge after the last one:
#   job=$(sbatch --parsable --array=1-8 slurm-array.sh plan.toml --rounds 24 --seed 1)
#   sbatch --dependency=afterok:$job --wrap "fsarena merge runs"
#SBATCH --job-name=fsarena
#SBATCH --exclusive
#SBATCH --ntasks=1
set -eu
# Arrays are numbered from 0 or from 1; fsarena takes both.
exec "${FSARENA:-fsarena}" run "$@" --quiet --runs "${RUNS:-runs}" \
    --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
