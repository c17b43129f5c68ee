#!/usr/bin/env python3
"""An all-reduce and a send between two GPUs through NCCL, with NVML's NVLink counters around it.

nccl_pair.py [SETTING=VALUE ...]

Sets the variables (NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, ...) before NCCL starts. NVLink
multicast stays off. Prints JSON: the counters' bytes, the rate, and NCCL's log lines that name a
transport.
"""
import json
import os
import re
import subprocess
import sys
import time

WORKER = r"""
import os, sys, time
import torch, torch.distributed as dist
rank = int(sys.argv[1])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29511", rank=rank, world_size=2)
data = torch.ones(256 << 20, dtype=torch.uint8, device="cuda") * (rank + 1)
def exchange():
    if rank == 0:
        dist.send(data, 1)
    else:
        dist.recv(data, 0)
    torch.cuda.synchronize()
for _ in range(3):
    exchange()
dist.barrier()
begin = time.monotonic()
for _ in range(16):
    exchange()
dist.barrier()
torch.cuda.synchronize()
if rank == 1:
    print("SECONDS", time.monotonic() - begin, flush=True)
    assert int(data[12345]) == 1
dist.destroy_process_group()
"""

FIELD_TX, FIELD_RX, ALL_LINKS = 138, 139, 0xFFFFFFFF


def counters():
    """KiB of NVLink data of each GPU, or why they cannot be read."""
    import pynvml
    pynvml.nvmlInit()
    found = []
    for gpu in range(2):
        handle = pynvml.nvmlDeviceGetHandleByIndex(gpu)
        row = {}
        for name, field in (("sent", FIELD_TX), ("received", FIELD_RX)):
            for scope in (ALL_LINKS, 0):
                value = pynvml.nvmlDeviceGetFieldValues(handle, [(field, scope)])[0]
                if value.nvmlReturn == 0:
                    row[name] = value.value.ullVal * 1024
                    break
        found.append(row)
    pynvml.nvmlShutdown()
    return found


def main():
    environment = dict(os.environ, NCCL_DEBUG="INFO", NCCL_NVLS_ENABLE="0",
                       TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")
    environment.update(word.split("=", 1) for word in sys.argv[1:])
    before = counters()
    begin = time.monotonic()
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(rank)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for rank in range(2)]
    texts = [worker.communicate(timeout=60)[0] for worker in workers]
    after = counters()
    payload = 19 * (256 << 20)
    result = {"schema": "nobounce.measurement/1", "case": "nccl", "settings": sys.argv[1:],
              "payload_bytes": payload, "seconds_in_all": time.monotonic() - begin,
              "exit_codes": [worker.returncode for worker in workers]}
    moved = [{key: after[gpu][key] - before[gpu][key] for key in before[gpu]} for gpu in range(2)]
    result["nvlink_bytes"] = moved
    timed = re.search(r"SECONDS ([0-9.]+)", texts[1])
    if timed:
        result["gb_per_s"] = 16 * (256 << 20) / float(timed.group(1)) / 1e9
    result["log"] = [line for text in texts for line in text.splitlines()
                     if re.search(r" via |P2P|SHM|NCCL version|NET/|error|Error", line)][:80]
    print(json.dumps(result, indent=1))
    return 0 if result["exit_codes"] == [0, 0] else 1


sys.exit(main())
