#!/usr/bin/env bash
# Moves more than 4 GiB between two processes on software machines, both ways, by adapters and staged, and verifies it.
#
#   bench/remote_large.sh [PROGRAM] [LENGTH]      default: build/demo/nobounce, 4 GiB and 12345 bytes
#
# Needs twice that much memory and a program that was built with optimisation. Exits with 0 only if every byte of every
# transfer travelled as it should, by the receipts of both ends, and checksums agree.
set -uo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(realpath -m "${1:-$home/build/demo/nobounce}")
length=${2:-$((4294967296 + 12345))}
folder=$(mktemp -d)
trap 'kill -KILL $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0
wrong() { echo "$1"; bad=$((bad + 1)); }

for carriage in direct staged; do
  settings=(--machine soft:workstation)
  [ $carriage = staged ] && settings+=(--set /modules/nvidia_peermem=false --set /kernel/dmabuf=false)
  rm -f server.txt  # the address of the one before
  "$program" serve --place gpu:0 --length "$length" --name w --access write "${settings[@]}" --json >server.txt 2>server.err &
  server=$!
  address=''
  for _ in $(seq 3000); do
    address=$(sed -n '1s/.*"address":"\([^"]*\)".*/\1/p' server.txt 2>/dev/null)
    [ -n "$address" ] && break
    sleep 0.02
  done
  [ -n "$address" ] || { wrong "no server: $(cat server.err)"; continue; }
  for way in read write; do
    ends=("rdma://$address/w" gpu:1)
    [ $way = write ] && ends=(gpu:1 "rdma://$address/w")
    before=$(date +%s%N)
    if "$program" copy "${ends[@]}" --length "$length" "${settings[@]}" --json >client.txt 2>client.err; then
      grep -q "\"$carriage\": $length\b" client.txt || wrong "$carriage $way: $(cat client.txt)"
      grep -q '"verified": true' client.txt || wrong "$carriage $way: not verified: $(cat client.txt)"
      echo "$carriage $way: $length bytes, verified, in $((($(date +%s%N) - before) / 1000000)) ms with start and checksums"
    else
      wrong "$carriage $way failed: $(cat client.txt client.err)"
    fi
  done
  kill -TERM "$server"
  wait "$server" || wrong "the server ended badly: $(cat server.err)"
  told=$(grep '"event":"ended"' server.txt | grep -c "\"$carriage\":$length\b")
  [ "$told" -eq 2 ] || wrong "$carriage: the server told of $told such transfers: $(cat server.txt)"
done
[ "$bad" -eq 0 ]
