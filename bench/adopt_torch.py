#!/usr/bin/env python3
"""PyTorch's memory as nobounce sees it: file -> tensor, tensor -> host, tensor -> tensor of another GPU,
with each of PyTorch's allocators, on a stream of its own, and from a forked DataLoader worker.

    bench/adopt_torch.py LIBRARY FOLDER       LIBRARY is libnobounce_adopt.so of the kit

Verifies every byte in torch. Prints one JSON; exits with 1 if anything is not as it should be."""
import ctypes
import json
import os
import subprocess
import sys

BYTES = 64 << 20
ALLOCATORS = {
    "caching": "expandable_segments:False",
    "expandable_segments": "expandable_segments:True",
    "cuda_malloc_async": "backend:cudaMallocAsync",
}


class Adopter:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        prefix = "nobounce_adopter_"
        for name, result, arguments in (
            ("open", ctypes.c_void_p, []),
            ("close", None, [ctypes.c_void_p]),
            ("said", ctypes.c_char_p, [ctypes.c_void_p]),
            ("adopt", ctypes.c_int64, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]),
            ("drop", None, [ctypes.c_void_p, ctypes.c_int64]),
            ("read", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]),
            ("copy", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]),
        ):
            function = getattr(self.library, prefix + name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, "_" + name, function)
        self.handle = self._open()

    def adopt(self, tensor):
        """(region, kind of memory, or why not)"""
        region = self._adopt(self.handle, tensor.data_ptr(), tensor.numel(), tensor.is_cuda)
        return region, self._said(self.handle).decode()

    def drop(self, region):
        self._drop(self.handle, region)

    def read(self, path, region):
        return json.loads(self._read(self.handle, path.encode(), region))

    def copy(self, source, target):
        return json.loads(self._copy(self.handle, source, target))

    def close(self):
        self._close(self.handle)


class Forked:
    """A dataset whose worker uses the session of its parent."""

    def __init__(self, adopter, path, region):
        self.adopter, self.path, self.region = adopter, path, region

    def __len__(self):
        return 1

    def __getitem__(self, index):
        receipt = self.adopter.copy(self.region, self.region)
        return json.dumps({"pid": os.getpid(), "receipt": receipt})


def one_allocator(library, folder):
    import torch

    torch.cuda.init()
    path = os.path.join(folder, "tensor")
    content = torch.randint(0, 256, (BYTES,), dtype=torch.uint8)
    content.numpy().tofile(path)
    adopter = Adopter(library)
    rows, wrong = [], []

    def row(what, kinds, receipt, equal, carriage):
        moved = receipt.get("bytes", {})
        good = bool(receipt.get("ok")) and equal and (carriage is None or moved.get(carriage) == BYTES)
        rows.append({"what": what, "kinds": kinds, "receipt": receipt, "verified_in_torch": equal, "good": good})
        if not good:
            wrong.append(what)

    # On a stream of its own, as training loops do; the tensor is whole once that stream is.
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.zeros(BYTES, dtype=torch.uint8, device="cuda:0")
        scratch = torch.empty(3 << 20, dtype=torch.uint8, device="cuda:0")  # the tensor is not alone
    stream.synchronize()
    region, kind = adopter.adopt(tensor)
    if region < 0:
        return {"rows": rows, "wrong": ["adopt: " + kind]}
    receipt = adopter.read(path, region)
    row("file -> tensor", [kind], receipt, bool(torch.equal(tensor.cpu(), content)), None)
    part, _ = adopter.adopt(tensor[4099 : 4099 + (1 << 20)])
    small = adopter.read(path, part)
    equal = bool(torch.equal(tensor[4099 : 4099 + (1 << 20)].cpu(), content[: 1 << 20]))
    rows.append({"what": "file -> a part of a tensor", "receipt": small, "verified_in_torch": equal, "good": equal})
    if not equal:
        wrong.append("a part of a tensor")
    adopter.drop(part)
    wanted = tensor.cpu()
    for pinned, carriage in ((True, "direct"), (False, "staged")):
        host = torch.zeros(BYTES, dtype=torch.uint8, pin_memory=pinned)
        there, host_kind = adopter.adopt(host)
        receipt = adopter.copy(region, there)
        row("tensor -> host", [kind, host_kind], receipt, bool(torch.equal(host, wanted)), carriage)
        adopter.drop(there)
    if torch.cuda.device_count() > 1:
        other = torch.zeros(BYTES, dtype=torch.uint8, device="cuda:1")
        torch.cuda.synchronize(1)
        there, other_kind = adopter.adopt(other)
        for _ in range(3):
            receipt = adopter.copy(region, there)
        row("tensor -> tensor of another GPU", [kind, other_kind], receipt, bool(torch.equal(other.cpu(), wanted)), "direct")
        adopter.drop(there)
    loader = torch.utils.data.DataLoader(Forked(adopter, path, region), num_workers=1,
                                         multiprocessing_context="fork", collate_fn=lambda items: items[0])
    answer = json.loads(next(iter(loader)))
    forked = answer["pid"] != os.getpid() and "session.forked" in answer["receipt"].get("error", "")
    rows.append({"what": "a forked DataLoader worker", "receipt": answer["receipt"], "good": forked})
    if not forked:
        wrong.append("a forked DataLoader worker")
    # The parent is none the worse for it.
    row("file -> tensor, after the fork", [kind], adopter.read(path, region), bool(torch.equal(tensor.cpu(), content)), None)
    adopter.drop(region)
    adopter.close()
    del scratch
    return {"rows": rows, "wrong": wrong}


def main():
    library, folder = sys.argv[1], sys.argv[2]
    if len(sys.argv) > 3:
        result = one_allocator(library, folder)
        print(json.dumps(result))
        sys.stdout.flush()
        return 1 if result["wrong"] else 0
    import torch

    results, failed = {}, []
    for name, setting in ALLOCATORS.items():
        environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=setting, PYTORCH_ALLOC_CONF=setting)
        done = subprocess.run([sys.executable, __file__, library, folder, name], env=environment,
                              capture_output=True, text=True, timeout=90)
        try:
            results[name] = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            results[name] = {"wrong": ["it printed no result"], "stderr": done.stderr[-2000:]}
        results[name]["exit_code"] = done.returncode
        failed += [name + ": " + what for what in results[name]["wrong"]]
        if done.returncode != 0 and not results[name]["wrong"]:
            failed.append(name + ": exit code " + str(done.returncode))
    # The same bytes between the same places: the receipts differ in times alone.
    def counts(result):
        return [(r["what"], r["receipt"].get("bytes"), r["receipt"].get("causes")) for r in result.get("rows", [])]

    first = counts(results["caching"])
    same = {name: counts(result) == first for name, result in results.items()}
    print(json.dumps({"schema": "nobounce.measurement/1", "case": "adopt_torch", "torch": torch.__version__,
                      "bytes": BYTES, "allocators": results, "receipts_as_with_caching": same, "failed": failed}, indent=2))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
