#!/usr/bin/env bash
# Runs lanes (see lanes.py) on a machine that is lent; pack.py puts this into the folder that it makes.
#   bash carry/run.sh MINUTES LANE...   starts them, waits for them, and packs what there is into the folder OUT
#   bash carry/run.sh                   waits for those that run, longer than one command may last, and packs again
#   source carry/run.sh                 the environment alone
# Lanes are in a session of their own, so that they outlive the command. WAIT: seconds to wait, 570 unless told.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RWF_COMMIT=$(cat "$here/commit")
export RWF_COMMIT PYTHONPATH="$here/src:$here/py" RWF_DATA="$here/data" RWF_CACHE="$PWD/runs/cache"
export XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONUNBUFFERED=1
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0
set -euo pipefail
mkdir -p runs
log=$PWD/runs/.lanes.log running=$PWD/runs/.lanes.running # the second holds a process, and goes when it ends
alive() { [ -f "$running" ] && kill -0 "$(cat "$running")" 2>/dev/null; }
if [ $# -gt 0 ]; then
  if alive; then echo "lanes run already: bash $0 waits for them"; exit 1; fi
  minutes=$1; shift
  [ ! -d "$here/runs" ] || cp -rn "$here/runs/." runs
  if [ $# -gt 1 ] && command -v nvidia-cuda-mps-control >/dev/null; then # lanes that share the card
    export CUDA_MPS_PIPE_DIRECTORY="$PWD/runs/.mps" CUDA_MPS_LOG_DIRECTORY="$PWD/runs/.mps"
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY"
    setsid nvidia-cuda-mps-control -d || true # it may run already
  fi
  # shellcheck disable=SC2016
  setsid bash -c 'echo $$ >"$0"; "$@" || echo "lanes ended with $?"; rm "$0"' "$running" \
    python3 "$here/benchmarks/lanes.py" --minutes "$minutes" --out runs "$@" >"$log" 2>&1 </dev/null &
  until [ -s "$running" ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
elif [ ! -f "$log" ]; then
  echo "nothing has run: bash $0 MINUTES LANE..."; exit 1
fi
end=$((SECONDS + ${WAIT:-570}))
while alive && [ $SECONDS -lt $end ]; do sleep 1; done
cat "$log"
if alive; then echo "lanes go on: bash $0 waits for them"; fi
[ -z "${OUT:-}" ] || python3 "$here/benchmarks/bring.py" runs "$OUT"
