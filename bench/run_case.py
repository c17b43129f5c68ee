#!/usr/bin/env python3
"""Runs one command with a limit and writes what it was and what it said as a JSON file.

run_case.py FOLDER NAME LIMIT_S [--exit 0,3] -- COMMAND...

Writes FOLDER/DATE-DEVICE-NAME.json (`nobounce.bench/1`), which is what bench/results holds, and
prints one line. DEVICE is $NOBOUNCE_DEVICE_TAG. Exits 0 if the command ended in
time with an expected exit code, else 1. Output that is JSON is kept as JSON, other output as its
last lines.
"""
import datetime
import json
import os
import shlex
import signal
import subprocess
import sys
import time

LINES_MAX = 400


def lines_of(text):
    lines = text.splitlines()
    return lines if len(lines) <= LINES_MAX else ["..."] + lines[-LINES_MAX:]


def shown(text):
    """Folders of this run by what they are: KIT, FILES, REPOSITORY."""
    for name in ("KIT", "FILES", "REPOSITORY"):
        path = os.environ.get("NOBOUNCE_PATH_" + name)
        text = text.replace(path, name) if path else text
    return text


def main():
    folder, name, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
    rest = sys.argv[4:]
    expected = {0}
    if rest[0] == "--exit":
        expected = {int(code) for code in rest[1].split(",")}
        rest = rest[2:]
    command = rest[1:]
    begin = time.monotonic()
    timed_out = False
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=max(limit, 1))
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        code = process.returncode
    except OSError as error:
        out, err, code = b"", str(error).encode(), 127
    seconds = time.monotonic() - begin
    out = shown(out.decode("utf-8", "replace"))
    err = shown(err.decode("utf-8", "replace"))
    run = {"command": shown(shlex.join(command)), "exit_code": code, "timed_out": timed_out,
           "seconds": round(seconds, 3)}
    try:
        run["output"] = json.loads(out)
    except ValueError:
        run["output"] = lines_of(out)
    if err.strip():
        run["errors"] = lines_of(err)
    document = {"schema": "nobounce.bench/1", "date": datetime.date.today().isoformat(),
                "case": name, "commit": os.environ.get("NOBOUNCE_COMMIT", "unknown"),
                "device": os.environ.get("NOBOUNCE_DEVICE", "unknown"), "runs": [run]}
    file_name = "-".join([document["date"], os.environ.get("NOBOUNCE_DEVICE_TAG", "device"), name])
    with open(os.path.join(folder, file_name + ".json"), "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    good = not timed_out and code in expected
    said = (err.strip() or out.strip()).splitlines()
    tail = "" if good or not said else "  " + said[-1][:200]
    state = "ok  " if good else "LATE" if timed_out else "BAD "
    print(f"{state} {name:<28} {seconds:7.1f} s  exit {code}{tail}", flush=True)
    return 0 if good else 1


sys.exit(main())
