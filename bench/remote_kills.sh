#!/usr/bin/env bash
# Kills one of two processes at random moments of a transfer between them, and checks what the other one says.
#
#   bench/remote_kills.sh [PROGRAM] [COUNT] [SEED]      default: build/demo/nobounce 100 1
#
# Servers and clients in turn, so 50 of each; every second pair of rounds stages. Every second four kill at any moment of
# the client's life, the others after its transfer has begun. Exits with 0 only if no killed transfer was called done,
# every one that failed said why within its time, the server went on after each killed client, and no shared segment or
# process is left.
set -uo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(realpath -m "${1:-$home/build/demo/nobounce}")
count=${2:-100}
RANDOM=${3:-1}
folder=$(mktemp -d)
trap 'kill -KILL $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
machine=(--machine soft:workstation)
unregistered=(--set /modules/nvidia_peermem=false --set /kernel/dmabuf=false)
length=1GiB
bad=0 killed_servers=0 killed_clients=0 failed=0 done_first=0 partial=0 lost=0 slowest=0

start_server() {  # start_server SETTING...: $server, $address
  rm -f server.txt  # the address of the one before
  "$program" serve --place gpu:0 --length "$length" --name w --access write "${machine[@]}" "$@" --json >server.txt 2>server.err &
  server=$!
  address=''
  for _ in $(seq 400); do
    address=$(sed -n '1s/.*"address":"\([^"]*\)".*/\1/p' server.txt 2>/dev/null)
    [ -n "$address" ] && return 0
    sleep 0.02
  done
  echo "no server: $(cat server.err)"
  return 1
}
wrong() { echo "round $round: $1"; bad=$((bad + 1)); }
pause() { sleep "$(printf '0.%03d' $((RANDOM % $1)))"; }
moment() {
  if [ $((round % 8)) -lt 4 ]; then
    pause 900
    return
  fi
  for _ in $(seq 2000); do
    grep -q '"event":"began"' server.txt && break
    sleep 0.005
  done
  pause 200
}

for round in $(seq "$count"); do
  settings=()
  [ $((round % 4)) -ge 2 ] && settings=("${unregistered[@]}")
  start_server "${settings[@]}" || exit 1
  if [ $((round % 2)) -eq 0 ]; then
    killed_servers=$((killed_servers + 1))
    "$program" copy "rdma://$address/w" gpu:1 "${machine[@]}" "${settings[@]}" --no-verify --json >client.txt 2>client.err &
    client=$!
    moment
    kill -KILL "$server"
    before=$(date +%s%N)
    wait "$client"
    code=$?
    took=$((($(date +%s%N) - before) / 1000000))
    [ "$took" -gt "$slowest" ] && slowest=$took
    wait "$server" 2>/dev/null
    if [ "$code" -eq 0 ]; then
      done_first=$((done_first + 1))
      grep -q '"state": "done"' client.txt || wrong "exit code 0 without a transfer that is done"
    else
      failed=$((failed + 1))
      grep -qE '"cause": "(remote\.[a-z_]+|rdma\.retry_exceeded)"' client.txt || wrong "no clear cause: $(cat client.txt client.err)"
      if grep -q '"receipts"' client.txt; then
        grep -q '"state": "done"' client.txt && wrong "a killed transfer was called done"
        grep -q 'remote.partial_arrival' client.txt && partial=$((partial + 1)) || wrong "no word of partial arrival: $(cat client.txt)"
      fi
    fi
  else
    killed_clients=$((killed_clients + 1))
    "$program" copy gpu:1 "rdma://$address/w" --length "$length" "${machine[@]}" "${settings[@]}" --no-verify >client.txt 2>&1 &
    client=$!
    moment
    kill -KILL "$client"
    wait "$client" 2>/dev/null
    "$program" copy "rdma://$address/w" gpu:1 --length 1MiB "${machine[@]}" >again.txt 2>&1 || wrong "the server served nobody after that: $(cat again.txt server.err)"
    kill -TERM "$server"
    wait "$server" || wrong "the server ended badly: $(cat server.err)"
    began=$(grep -c '"event":"began"' server.txt)
    over=$(grep -cE '"event":"(ended|lost)"' server.txt)
    [ "$began" -eq "$over" ] || wrong "$began transfers began and $over were over"
    lost=$((lost + $(grep -c '"event":"lost"' server.txt)))
  fi
done
left=$(find /dev/shm -name 'nobounce.token-*' -newer server.err 2>/dev/null | wc -l)
echo "rounds $count: servers killed $killed_servers (transfers failed $failed, of them begun and called partial $partial; done before $done_first; slowest to say so $slowest ms)"
echo "clients killed $killed_clients (lost in mid-transfer $lost); tokens that killed servers left $left; wrong $bad"
[ "$bad" -eq 0 ]
