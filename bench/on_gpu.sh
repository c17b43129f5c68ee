#!/usr/bin/env bash
# Everything that a machine with a GPU is asked, in one call: conformance, device tests, check, topo,
# prove, a verified copy of 8 GiB, benchmarks beside others, and with two GPUs the peer parts.
#
#   bench/on_gpu.sh KIT        KIT holds the programs of the preset `device` (make device)
#
# Results go to $OUT (default ./on-gpu-results): summary.txt, conformance-live.json, and cases.tar.gz
# with one JSON per case, each with its exact command, named as bench/results names them. A step that fails or hangs costs itself alone.
# NOBOUNCE_BUDGET_S (default 470) bounds the whole; NOBOUNCE_STEPS names the steps to run
# (facts conformance device async check copy bench loaders adopt peer), default all.
set -u
kit=$(cd "${1:?usage: bench/on_gpu.sh KIT}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$PWD/on-gpu-results}
budget=${NOBOUNCE_BUDGET_S:-470}
steps=" ${NOBOUNCE_STEPS:-facts conformance device async check copy bench loaders adopt peer} "
mkdir -p "$out"
work=$(mktemp -d "${NOBOUNCE_WORK:-/var/tmp}/nobounce-gpu-XXXXXX" || mktemp -d)
cases=$work/cases
files=$work/files
mkdir -p "$cases" "$files"
export TMPDIR=$files NOBOUNCE_PATH_KIT=$kit NOBOUNCE_PATH_FILES=$files NOBOUNCE_PATH_REPOSITORY=${here%/bench}
trap 'rm -rf "$work"' EXIT
[ -f "$kit/commit" ] && export NOBOUNCE_COMMIT=$(cat "$kit/commit")
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
export NOBOUNCE_DEVICE="$gpus x $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1), $(nproc) CPU cores, kernel $(uname -r)"
tag=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 | sed 's/^NVIDIA //' | tr 'A-Z ' 'a-z_')
[ "$gpus" -gt 1 ] && tag=$tag-x$gpus
export NOBOUNCE_DEVICE_TAG=${tag:-no-gpu}
nobounce=$kit/nobounce
conformance=$kit/nobounce_conformance
machine=$kit/h200-guest.json
failures=0

# Kept up to date, so that a call that is cut off has given what it had.
save() {
  tar -C "$work" -czf "$out/cases.tar.gz" cases
}
# run NAME SECONDS [--exit CODES] -- COMMAND...
run() {
  local name=$1 limit=$2
  shift 2
  local left=$((budget - SECONDS))
  if [ "$left" -lt 5 ]; then
    echo "SKIP $name: the time is used up" | tee -a "$out/summary.txt"
    failures=$((failures + 1))
    return 1
  fi
  [ "$limit" -gt "$left" ] && limit=$left
  python3 "$here/run_case.py" "$cases" "$name" "$limit" "$@" | tee -a "$out/summary.txt"
  local code=${PIPESTATUS[0]}
  [ "$code" -eq 0 ] || failures=$((failures + 1))
  save
  return "$code"
}
wanted() { [[ $steps == *" $1 "* ]]; }

: > "$out/summary.txt"
echo "$NOBOUNCE_DEVICE, commit ${NOBOUNCE_COMMIT:-unknown}" | tee -a "$out/summary.txt"

if wanted facts; then
  run machine 20 -- bash -c 'nvidia-smi; nvidia-smi topo -m; nvidia-smi topo -p2p r; uname -a; df -h . /dev/shm; grep -E "Mem(Total|Free|Available)" /proc/meminfo; mount | head -20; ls /run/udev /proc/driver/nvidia-fs 2>&1; cat /proc/driver/nvidia/version 2>&1; true'
  run version 10 -- "$nobounce" --version --json
fi
if wanted conformance; then
  run conformance_live 220 -- "$conformance" --live --may-write-udev --folder "$files/conformance" --out "$files/live.json"
  [ -f "$files/live.json" ] && cp "$files/live.json" "$out/conformance-live.json"
  # As many GPUs as there are: the guest has one, so pairs are compared on a machine of its own.
  [ "$gpus" -ge 2 ] && [ -f "$kit/h200-pair.json" ] && machine=$kit/h200-pair.json
  run conformance_soft 60 -- "$conformance" --soft "$machine" --folder "$files/conformance" --out "$files/soft.json"
  run conformance_compare 20 -- "$conformance" --compare "$files/live.json" "$files/soft.json" --explained "$kit/explained.txt"
  run conformance_unconfirmed 20 -- "$conformance" --unconfirmed "$files/live.json" "$files/soft.json" --explained "$kit/explained.txt"
fi
if wanted device; then
  run device_tests 180 -- "$kit/device_tests" --gtest_filter='-Litmus.*:AsyncOnGpu.*' --gtest_brief=0 --gtest_color=no
fi
if wanted async; then
  run async_reads 150 -- "$kit/nobounce_gpu_bench" async --folder /dev/shm
  run async_reads_ext4 60 -- "$kit/nobounce_gpu_bench" async --folder "$files" --few yes
  run async_tests 170 -- "$kit/device_tests" --gtest_filter='Litmus.*:AsyncOnGpu.*' --gtest_brief=0 --gtest_color=no
  run async_conformance 90 -- "$conformance" --live --only words. --folder "$files/conformance" --out "$files/words.json"
  [ -f "$files/words.json" ] && cp "$files/words.json" "$out/words-live.json"
  run async_prove 60 --exit 0,3,4 -- "$nobounce" prove --async --json
fi
if wanted check; then
  run check 20 --exit 0,3,4 -- "$nobounce" check --json
  run topo 20 -- "$nobounce" topo --json
  run prove 90 --exit 0,3,4 -- "$nobounce" prove --json
fi
if wanted copy; then
  # A seeded pattern as the file: nothing else writes 8 GiB as fast.
  run copy_make_file 60 -- "$nobounce" copy host "$files/eight" --length 8GiB --no-verify --json
  run copy_through_gpu 120 -- "$nobounce" copy "$files/eight" gpu:0 "$files/eight.out" --json
  run copy_compare 60 -- cmp "$files/eight" "$files/eight.out"
  run copy_direct_required 20 --exit 3 -- "$nobounce" copy "$files/eight" gpu:0 --policy direct_required --json
  rm -f "$files/eight" "$files/eight.out"
fi
if wanted bench; then
  run overhead 30 -- "$kit/nobounce_gpu_bench" overhead
  run ledger_cost 20 -- "$kit/nobounce_gpu_bench" ledger-cost
  run bench_copy 90 -- "$kit/nobounce_gpu_bench" copy --folder "$files" --sweep yes
fi
if wanted loaders; then
  run loaders 100 -- python3 "$here/compare_loaders.py" "$files" "$kit/nobounce_gpu_bench"
fi
if wanted adopt; then
  run adopt_torch 150 -- python3 "$here/adopt_torch.py" "$kit/libnobounce_adopt.so" "$files"
fi
if wanted peer && [ "$gpus" -ge 2 ]; then
  run peer_check 20 --exit 0,3,4 -- "$nobounce" check --pair gpu:0,gpu:1 --json
  run peer_copy 30 -- "$nobounce" copy gpu:0 gpu:1 --length 4GiB --policy direct_required --json
  run peer_prove 60 --exit 0,3,4 -- "$nobounce" prove --pair gpu:0,gpu:1 --json
  run peer_bench 90 -- "$kit/nobounce_gpu_bench" peer
  run nccl_p2p 60 -- python3 "$here/nccl_pair.py"
  run nccl_no_p2p 60 -- python3 "$here/nccl_pair.py" NCCL_P2P_DISABLE=1
  run nccl_no_p2p_no_shm 60 -- python3 "$here/nccl_pair.py" NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
elif wanted peer; then
  echo "SKIP peer: needs 2 GPUs, there are $gpus" | tee -a "$out/summary.txt"
fi
save
echo "$failures steps did not end well, $SECONDS s" | tee -a "$out/summary.txt"
[ "$failures" -eq 0 ]
