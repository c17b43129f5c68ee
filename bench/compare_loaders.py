#!/usr/bin/env python3
"""Loads the same bytes into GPU memory with torch.load, with safetensors and with nobounce.

compare_loaders.py FOLDER BENCH_PROGRAM [--bytes N]

Files lie in the page cache. Prints JSON: the rate of each loader, and how much slower than nobounce
the others are. A loader that is not installed is named with its reason.
"""
import json
import os
import subprocess
import sys
import time

REPEATS = 4


def rates(load, bytes_loaded, synchronize):
    """GB/s of repeated loads; the first one warms up and is told apart."""
    found = []
    for _ in range(REPEATS + 1):
        begin = time.monotonic()
        kept = load()
        synchronize()
        found.append(bytes_loaded / (time.monotonic() - begin) / 1e9)
        del kept
    later = sorted(found[1:])
    return {"first": found[0], "median": later[len(later) // 2], "smallest": later[0],
            "largest": later[-1], "runs": REPEATS}


def main():
    folder, bench = sys.argv[1], sys.argv[2]
    size = int(sys.argv[4]) if len(sys.argv) > 4 and sys.argv[3] == "--bytes" else 2 << 30
    result = {"schema": "nobounce.measurement/1", "case": "loaders", "bytes": size,
              "gb_per_s": {}, "versions": {}, "absent": {}}
    import torch
    result["versions"]["torch"] = torch.__version__
    count = 16
    generator = torch.Generator().manual_seed(1)
    tensors = {f"t{i}": torch.randint(0, 256, (size // count,), dtype=torch.uint8,
                                      generator=generator) for i in range(count)}
    torch_path = os.path.join(folder, "loaders.pt")
    safe_path = os.path.join(folder, "loaders.safetensors")
    torch.save(tensors, torch_path)
    torch.zeros(1, device="cuda")
    result["gb_per_s"]["torch.load"] = rates(
        lambda: torch.load(torch_path, map_location="cuda", weights_only=True), size,
        torch.cuda.synchronize)
    result["gb_per_s"]["torch.load mmap"] = rates(
        lambda: torch.load(torch_path, map_location="cuda", weights_only=True, mmap=True), size,
        torch.cuda.synchronize)
    nobounce_path = torch_path
    try:
        import safetensors
        from safetensors.torch import load_file, save_file
        result["versions"]["safetensors"] = safetensors.__version__
        save_file(tensors, safe_path)
        nobounce_path = safe_path
        result["gb_per_s"]["safetensors"] = rates(lambda: load_file(safe_path, device="cuda"), size,
                                                  torch.cuda.synchronize)
    except ImportError as error:
        result["absent"]["safetensors"] = str(error)
    del tensors
    torch.cuda.empty_cache()
    command = [bench, "copy", "--file", nobounce_path]
    result["nobounce_command"] = " ".join(command)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    for path in (torch_path, safe_path):
        if os.path.exists(path):
            os.unlink(path)
    if ran.returncode != 0:
        result["failure"] = ran.stderr.strip()[-400:]
        print(json.dumps(result, indent=1))
        return 1
    ours = json.loads(ran.stdout)
    result["nobounce"] = ours
    result["gb_per_s"]["nobounce"] = ours["file_to_gpu_gb_per_s"]
    rate = ours["file_to_gpu_gb_per_s"]["median"]
    result["nobounce_times_as_fast_as"] = {
        name: rate / found["median"] for name, found in result["gb_per_s"].items()
        if name != "nobounce"}
    print(json.dumps(result, indent=1))
    return 0


sys.exit(main())
