#!/bin/bash
# One experiment as a Slurm job array, eight shards of two cores each:
#
#   sbatch --array=1-8 scripts/slurm_array.sh configs/table2.yaml
#   opauc-bench merge configs/table2.yaml results/table2.shard-*-of-8      (when all have ended)
#
# A shard that ran out of time continues where it was: submit the same line again, or that shard with the number of all:
#
#   sbatch --array=3 scripts/slurm_array.sh configs/table2.yaml 8
#
# Datasets should be in the cache before (opauc-bench data fetch ...), because compute nodes often have no network; the
# cache has to be on a disk that they see.
#SBATCH --job-name=opauc-bench
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=8G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120

set -euo pipefail
config=${1:?usage: sbatch --array=1-N scripts/slurm_array.sh CONFIG [N]}
shards=${2:-$SLURM_ARRAY_TASK_MAX}

# SIGTERM, sent two minutes before the time limit, lets the run save what it has.
exec opauc-bench run "$config" \
    --shard "${SLURM_ARRAY_TASK_ID}/${shards}" \
    --jobs "${SLURM_CPUS_PER_TASK}" \
    --quiet
