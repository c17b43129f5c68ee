#!/usr/bin/env python3
"""How long `nobounce check` takes on the recording of an 8-GPU, 8-NIC machine.

check_recording.py PROGRAM OUTPUT.json [RUNS]      in the repository's root

Wall time is at the mercy of whatever else runs; CPU time is what the program itself took.
"""
import datetime
import json
import resource
import subprocess
import sys
import time

RECORDING = "tests/machines/hgx-8gpu.recording.json"


def main():
    program, output = sys.argv[1], sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    command = [program, "check", "--machine", "recorded:" + RECORDING]
    walls, cpus = [], []
    for _ in range(count):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        walls.append(time.monotonic() - begin)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if code not in (0, 3, 4):
            sys.exit("check exited with %d" % code)
    walls.sort()
    cpus.sort()
    version = json.loads(subprocess.run([program, "--version", "--json"], capture_output=True, text=True).stdout)
    document = {"schema": "nobounce.bench/1", "date": datetime.date.today().isoformat(), "case": "check_recording",
                "command": "nobounce check --machine recorded:" + RECORDING, "optimised": version["optimised"], "runs": count,
                "goal_seconds": 0.3,
                "wall_seconds": {"least": round(walls[0], 3), "median": round(walls[count // 2], 3), "most": round(walls[-1], 3)},
                "cpu_seconds": {"least": round(cpus[0], 3), "median": round(cpus[count // 2], 3), "most": round(cpus[-1], 3)}}
    with open(output, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    print(json.dumps(document["wall_seconds"]), json.dumps(document["cpu_seconds"]))


main()
