#!/bin/sh
# Runs one shard in each task of a job array. Submit the array, and a merge that starts after it:
#   job=$(sbatch --parsable --array=1-8 slurm-array.sh plan.toml --rounds 24 --seed 1)
#   sbatch --dependency=afterok:$job --wrap "fsarena merge runs"
#SBATCH --job-name=fsarena
#SBATCH --exclusive
#SBATCH --ntasks=1
set -eu
# Arrays count from 0 or from 1; fsarena accepts both.
exec "${FSARENA:-fsarena}" run --quiet --runs "${RUNS:-runs}" \
    --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" "$@"
