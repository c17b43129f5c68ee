#!/usr/bin/env python3
"""Writes the recorded machines of this folder: file trees as Linux shows them, put together from parts.

The trees are written down here independently of the software machine, so that the readers are tested
against something else than what it shows. Run it in this folder, then see README.md.
"""
import json
import struct

SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0"}
IB = {100: "100 Gb/sec (4X EDR)", 200: "200 Gb/sec (4X HDR)", 400: "400 Gb/sec (4X NDR)"}
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (root@builder)\n"
CLOSED = "NVRM version: NVIDIA UNIX %s Kernel Module  %s  Release Build\n"


class Host:
    def __init__(self, name, release, cpu, sockets, guest=False, arch="x86_64"):
        self.name, self.files, self.links = name, {}, {}
        self.unreadable, self.env, self.folders = {}, {}, {}
        self.groups, self.places, self.mount_lines = 0, {}, []
        self.nvml_gpus, self.cuda_devices, self.root = [], [], True
        self.iommu = None  # None: off
        self.cufile = {"version": 1150}
        self.modules = []
        self.file("/proc/sys/kernel/osrelease", release)
        self.file("/proc/sys/kernel/arch", arch)
        self.file("/proc/version", "Linux version %s (builder@host) #1 SMP" % release)
        vendor, family, model, text = cpu
        if arch == "x86_64":
            flags = "fpu vme sse2 ht lm constant_tsc" + (" hypervisor" if guest else "")
            self.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: %s\ncpu family\t: %d\nmodel\t\t: %d\n"
                      "model name\t: %s\nphysical id\t: 0\nflags\t\t: %s" % (vendor, family, model, text, flags))
        else:
            self.file("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\n"
                      "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f")
        for node, (socket, gib, cpus) in enumerate(sockets):
            path = "/sys/devices/system/node/node%d" % node
            self.file(path + "/cpulist", cpus)
            self.file(path + "/meminfo", "Node %d MemTotal:       %d kB\nNode %d MemFree: 1 kB" % (node, gib << 20, node))
            if cpus:
                first = cpus.split("-")[0].split(",")[0]
                self.file("/sys/devices/system/cpu/cpu%s/topology/physical_package_id" % first, str(socket))
        self.file("/proc/kallsyms", "")
        self.file("/boot/config-" + release, "\nCONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_HEAPS=y")
        self.process()

    def file(self, path, text):
        self.files[path] = text + ("\n" if text and not text.endswith("\n") else "")

    def process(self, root=True, memlock="unlimited", seccomp=0, cgroup="0::/user.slice"):
        self.root = root
        cap = "000001ffffffffff" if root else "0000000000000000"
        uid = 0 if root else 1000
        self.file("/proc/self/status", "Name:\tnobounce\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%s\nSeccomp:\t%d" % (uid, uid, uid, uid, cap, seccomp))
        self.file("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                  "Max locked memory         %-20s %-20s bytes     " % (memlock, memlock))
        self.file("/proc/self/cgroup", cgroup)

    # --- PCI ---

    def function(self, path, ids, cls, numa=0, driver=None, link=None, port=None, acs=None, ats=False):
        """path: pci0000:00/0000:00:01.0/... ; acs: a control word, or None without the capability."""
        full = "/sys/devices/" + path
        bdf = path.rsplit("/", 1)[1]
        vendor, device = ids
        self.file(full + "/vendor", "0x%04x" % vendor)
        self.file(full + "/device", "0x%04x" % device)
        self.file(full + "/class", "0x%06x" % cls)
        self.file(full + "/numa_node", str(numa))
        self.links["/sys/bus/pci/devices/" + bdf] = full
        config = bytearray(4096 if self.root else 64)
        struct.pack_into("<HH", config, 0, vendor, device)
        config[9], config[10], config[11] = cls & 255, cls >> 8 & 255, cls >> 16 & 255
        config[14] = 1 if cls >> 8 == 0x0604 else 0
        if self.root:
            at, caps = 0x100, [(0x0001, b"\0" * 44)]
            if acs is not None:
                caps.append((0x000D, struct.pack("<HH", 0x5F, acs)))
            if ats:
                caps.append((0x000F, struct.pack("<HH", 0x20, 0x8000)))
            for i, (cap, body) in enumerate(caps):
                after = at + 4 + (len(body) + 15) // 16 * 16 if i + 1 < len(caps) else 0
                struct.pack_into("<I", config, at, cap | 1 << 16 | after << 20)
                config[at + 4:at + 4 + len(body)] = body
                at = after
        hexed = bytes(config).rstrip(b"\0").hex()
        self.files[full + "/config"] = {"hex": hexed, "length": len(config)}
        if link:
            gen, width, best, most = link
            self.file(full + "/current_link_speed", SPEEDS[gen] + " GT/s PCIe")
            self.file(full + "/current_link_width", str(width))
            self.file(full + "/max_link_speed", SPEEDS[best] + " GT/s PCIe")
            self.file(full + "/max_link_width", str(most))
        if driver:
            self.links[full + "/driver"] = "/sys/bus/pci/drivers/" + driver
        if self.iommu:
            group = "/sys/kernel/iommu_groups/%d" % self.groups
            self.groups += 1
            self.links[full + "/iommu_group"] = group
            self.file(full + "/iommu_group/type", self.iommu)
        return path

    def root_bus(self, bus, ids, numa=0):
        path = "pci" + bus
        self.function("%s/%s:00.0" % (path, bus), ids, 0x060000, numa)
        return path

    def port(self, parent, bdf, numa=0, acs=0, ids=(0x8086, 0x352A), link=(5, 16, 5, 16)):
        return self.function(parent + "/" + bdf, ids, 0x060400, numa, "pcieport", link, acs=acs)

    def switch(self, parent, bus, numa=0):
        """An upstream port below `parent`; its downstream ports are ports below what is returned."""
        return self.function("%s/%s:00.0" % (parent, bus), (0x1000, 0xC030), 0x060400, numa, "pcieport", (5, 16, 5, 16))

    def downstream(self, upstream, bdf, numa=0, acs=0):
        return self.port(upstream, bdf, numa, acs, (0x1000, 0xC030))

    # --- devices ---

    def gpu(self, parent, bdf, product, device, gib, bar1_mib=None, numa=0, link=(5, 16, 5, 16), driver="nvidia",
            resize_mib=None, coherent=False, cls=0x030200):
        path = "/sys/devices/" + self.function(parent + "/" + bdf, (0x10DE, device), cls, numa, driver, link)
        bar1 = (bar1_mib or gib * 1024) << 20
        self.file(path + "/resource", "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n"
                  "0x%016x 0x%016x 0x000000000014220c" % (1 << 44, (1 << 44) + bar1 - 1))
        if resize_mib:
            self.file(path + "/resource1_resize", "%016x" % resize_mib)
        number = len(self.nvml_gpus)
        uuid = "GPU-00000000-0000-4000-8000-%012d" % (number + 1)
        info = "/proc/driver/nvidia/gpus/" + bdf
        self.file(info + "/information", "Model: \t\t %s\nIRQ:   \t\t 100\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s" % (product, uuid, bdf))
        if coherent:
            self.file(info + "/numa_status", "Node: 1\nStatus: online")
        self.nvml_gpus.append({"bdf": "0000" + bdf.upper(), "name": product, "uuid": uuid, "memory_bytes": gib << 30,
                               "bar1_bytes": bar1, "bar1_free_bytes": bar1 - (1 << 20), "mig": {"code": 3}, "virtualization": 0,
                               "peer_read": [], "peer_write": [], "nvlinks": []})
        self.cuda_devices.append({"bdf": bdf.upper(), "attributes": {"18": 0, "41": 1, "98": 1, "99": 1, "116": 1, "117": 1, "118": 100, "122": 1, "124": 1},
                                  "can_access": []})

    def peers(self, status, access):
        """One status for all pairs: 0 ok, 1 chipset, 2 GPU not supported."""
        count = len(self.nvml_gpus)
        for i in range(count):
            row = [None if i == j else status for j in range(count)]
            self.nvml_gpus[i]["peer_read"] = self.nvml_gpus[i]["peer_write"] = row
            self.cuda_devices[i]["can_access"] = [None if i == j else access for j in range(count)]

    def nic(self, parent, bdf, name, rate=400, numa=0, layer="InfiniBand", up=True, driver="mlx5_core", ids=(0x15B3, 0x1021),
            netdev=None, link=(5, 16, 5, 16), ats=False, fw="28.42.1000"):
        path = "/sys/devices/" + self.function(parent + "/" + bdf, ids, 0x020700 if layer == "InfiniBand" else 0x020000, numa, driver, link, ats=ats)
        ib = path + "/infiniband/" + name
        self.links["/sys/class/infiniband/" + name] = ib
        self.file(ib + "/fw_ver", fw)
        self.file(ib + "/node_type", "1: CA")
        self.file(ib + "/ports/1/state", "4: ACTIVE" if up else "1: DOWN")
        self.file(ib + "/ports/1/rate", IB.get(rate, "%d Gb/sec" % rate))
        self.file(ib + "/ports/1/link_layer", layer)
        if netdev:
            self.file(ib + "/ports/1/gid_attrs/ndevs/0", netdev)
            self.links["/sys/class/net/" + netdev] = path + "/net/" + netdev
            self.links[path + "/net/" + netdev + "/device"] = path
            self.links["/sys/class/net/" + netdev + "/device"] = path
        self.file("/dev/infiniband/uverbs%d" % len([f for f in self.files if "/fw_ver" in f]), "")

    def block(self, path, name, number, sectors=7501476528, sector=512):
        self.links["/sys/block/" + name] = self.links["/sys/class/block/" + name] = path
        self.file(path + "/dev", number)
        self.file(path + "/size", str(sectors))
        self.file(path + "/queue/logical_block_size", str(sector))
        if self.udev:
            self.file("/run/udev/data/b" + number, "N:" + name)

    udev = True

    def nvme(self, parent, bdf, index, minor, numa=0, link=(4, 4, 4, 4), model="SAMSUNG MZQL23T8HCLS-00A07"):
        path = "/sys/devices/" + self.function(parent + "/" + bdf, (0x144D, 0xA80A), 0x010802, numa, "nvme", link)
        controller = path + "/nvme/nvme%d" % index
        self.file(controller + "/transport", "pcie")
        self.file(controller + "/model", model)
        self.file(controller + "/firmware_rev", "GDC5602Q")
        block = controller + "/nvme%dn1" % index
        self.block(block, "nvme%dn1" % index, "259:%d" % minor)
        self.file(block + "/nsid", "1")
        self.links[block + "/device"] = controller
        for name in ("transport", "model", "firmware_rev"):
            self.files[block + "/device/" + name] = self.files[controller + "/" + name]

    def md(self, name, minor, parts, level="raid0"):
        path = "/sys/devices/virtual/block/" + name
        self.block(path, name, "9:%d" % minor)
        self.file(path + "/md/level", level)
        for part in parts:
            self.links[path + "/slaves/" + part] = self.links["/sys/class/block/" + part]

    def dm(self, name, minor, parts, uuid):
        path = "/sys/devices/virtual/block/" + name
        self.block(path, name, "253:%d" % minor)
        self.file(path + "/dm/uuid", uuid)
        for part in parts:
            self.links[path + "/slaves/" + part] = self.links["/sys/class/block/" + part]

    def virtio(self, root, bdf, name):
        path = "/sys/devices/" + self.function(root + "/" + bdf, (0x1AF4, 0x1042), 0x010000, -1, "virtio-pci")
        self.block(path + "/virtio2/block/" + name, name, "254:0")
        self.links[path + "/virtio2/block/" + name + "/device"] = path + "/virtio2"
        self.links[path + "/virtio2/block/" + name + "/device/driver"] = "/sys/bus/virtio/drivers/virtio_blk"

    def mount(self, point, device, kind, source, options, extra="rw"):
        number = 20 + len(self.mount_lines)
        self.mount_lines.append("%d 1 %s / %s %s - %s %s %s" % (number, device, point, options, kind, source, extra))
        self.places[point] = point

    # --- the whole ---

    def driver(self, version="570.124.06", opened=True, arch="x86_64"):
        self.file("/proc/driver/nvidia/version", (OPEN if opened else CLOSED) % (arch, version))
        self.file("/proc/driver/nvidia/params", 'EnableGpuFirmware: 18\nDmaRemapPeerMmio: 1\nRegistryDwords: ""')
        self.driver_version = version

    def nvidia_fs(self, registered=("nvme", "nvme_rdma")):
        self.modules.append("nvidia_fs")
        self.file("/sys/module/nvidia_fs/version", "2.24.3")
        self.file("/proc/driver/nvidia-fs/modules", "\n".join(registered))
        self.file("/proc/driver/nvidia-fs/stats", "GDS Version: 1.15.1.6\nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.24.3)\n"
                  "Mellanox PeerDirect Supported: True\nIO stats: Disabled, peer IO stats: Disabled")

    def nccl(self, version):
        folder = "/usr/lib/x86_64-linux-gnu"
        self.links[folder + "/libnccl.so.2"] = folder + "/libnccl.so." + version
        self.file(folder + "/libnccl.so." + version, "")

    def write(self):
        if self.udev:
            self.folders.setdefault("/run/udev/data", sorted(f.rsplit("/", 1)[1] for f in self.files if f.startswith("/run/udev/data/")))
        self.file("/proc/modules", "\n".join("%s 65536 0 - Live 0x0000000000000000" % m for m in self.modules))
        self.file("/proc/self/mountinfo", "\n".join(self.mount_lines))
        self.places.setdefault("/", "/")
        document = {
            "schema": "nobounce.recording/1", "name": self.name, "taken_with": "by hand",
            "environment": self.env,
            "nvml": {"driver": self.driver_version, "confidential": 0, "gpus": self.nvml_gpus} if self.nvml_gpus else None,
            "cuda": {"devices": self.cuda_devices} if self.cuda_devices else None,
            "cufile": self.cufile, "verbs": {"library": True}, "places": self.places, "missing_places": {}, "unreadable": self.unreadable,
            "links": dict(sorted(self.links.items())), "folders": self.folders, "files": dict(sorted(self.files.items()))}
        with open(self.name + ".recording.json", "w") as out:
            json.dump(document, out, indent=1)
            out.write("\n")


SPR = ("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480C")
ICX = ("GenuineIntel", 6, 106, "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz")
MILAN = ("AuthenticAMD", 25, 1, "AMD EPYC 7763 64-Core Processor")
ALDER = ("GenuineIntel", 6, 151, "12th Gen Intel(R) Core(TM) i9-12900K")
MODULES = ["nvidia_uvm", "nvidia", "nvme", "nvme_core", "mlx5_ib", "mlx5_core", "ib_uverbs", "ib_core"]


def hgx():
    h = Host("hgx-8gpu", "6.8.0-60-generic", SPR, [(0, 1024, "0-55,112-167"), (1, 1024, "56-111,168-223")])
    h.modules = MODULES + ["nvidia_peermem"]
    h.driver()
    h.nvidia_fs()
    for i in range(8):
        numa, bus = i // 4, 0x10 + 0x18 * i
        root = h.root_bus("0000:%02x" % bus, (0x8086, 0x09A2), numa)
        top = h.port(root, "0000:%02x:01.0" % bus, numa)
        up = h.switch(top, "0000:%02x" % (bus + 1), numa)
        inner = bus + 2
        for slot, what in enumerate(("gpu", "nic", "nvme")):
            down = h.downstream(up, "0000:%02x:%02x.0" % (inner, slot), numa)
            bdf = "0000:%02x:00.0" % (bus + 3 + slot)
            if what == "gpu":
                h.gpu(down, bdf, "NVIDIA H100 80GB HBM3", 0x2330, 80, 131072, numa)
            elif what == "nic":
                h.nic(down, bdf, "mlx5_%d" % i, 400, numa, netdev="ibs%d" % i)
            else:
                h.nvme(down, bdf, i, i, numa)
    mgmt = h.root_bus("0000:f0", (0x8086, 0x09A2), 1)
    for i in range(4):
        bridge = h.port(mgmt, "0000:f0:%02x.0" % (1 + i), 1, link=(4, 2, 4, 2))
        h.function("%s/0000:%02x:00.0" % (bridge, 0xF1 + i), (0x10DE, 0x22A3), 0x068000, 1, "nvidia-nvswitch", (2, 2, 2, 2))
    for gpu in h.nvml_gpus:
        gpu["nvlinks"] = ["00000000:%02X:00.0" % (0xF1 + link % 4) for link in range(18)]
    h.peers(0, 1)
    h.file("/run/nvidia-fabricmanager/nv-fabricmanager.pid", "4242")
    h.nccl("2.21.5")
    h.md("md0", 0, ["nvme%dn1" % i for i in range(1, 8)])
    h.mount("/", "259:0", "ext4", "/dev/nvme0n1", "rw,relatime", "rw,data=ordered")
    h.mount("/raid", "9:0", "ext4", "/dev/md0", "rw,relatime", "rw,data=ordered")
    h.file("/etc/cufile.json", '{ "properties": { "allow_compat_mode": true, "use_pci_p2pdma": false } }')
    return h


def dual_socket():
    h = Host("dual-socket-pcie", "5.15.0-131-generic", ICX, [(0, 256, "0-31,64-95"), (1, 256, "32-63,96-127")])
    h.modules = MODULES + ["nvidia_peermem"]
    h.driver("550.144.03", opened=False)
    h.nvidia_fs(())
    h.file("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3")
    for i, (bus, numa) in enumerate([(0x16, 0), (0x30, 0), (0x97, 1), (0xB0, 1)]):
        root = h.root_bus("0000:%02x" % bus, (0x8086, 0x09A2), numa)
        port = h.port(root, "0000:%02x:02.0" % bus, numa, ids=(0x8086, 0x347A), link=(4, 16, 4, 16))
        h.gpu(port, "0000:%02x:00.0" % (bus + 1), "NVIDIA A100 80GB PCIe", 0x20B5, 80, 131072, numa, (4, 16, 4, 16))
        if i == 0:
            nic = h.port(root, "0000:16:04.0", 0, ids=(0x8086, 0x347C), link=(4, 16, 4, 16))
            h.nic(nic, "0000:18:00.0", "mlx5_0", 200, 0, ids=(0x15B3, 0x101B), link=(4, 16, 4, 16), netdev="ibp24s0", fw="20.38.1900")
        if i == 2:
            drive = h.port(root, "0000:97:04.0", 1, ids=(0x8086, 0x347C), link=(4, 4, 4, 4))
            h.nvme(drive, "0000:99:00.0", 0, 0, 1, link=(3, 2, 4, 4))
    h.peers(0, 1)
    h.nccl("2.18.5")
    h.mount("/", "259:0", "ext4", "/dev/nvme0n1", "rw,relatime")
    return h


def epyc():
    h = Host("epyc-translated", "6.1.0-28-amd64", MILAN, [(0, 512, "0-63")])
    h.iommu = "DMA-FQ"
    h.modules = MODULES
    h.driver("560.35.03")
    for i, bus in enumerate((0x00, 0x40)):
        root = h.root_bus("0000:%02x" % bus, (0x1022, 0x1480))
        port = h.port(root, "0000:%02x:01.1" % bus, 0, 0x1D, (0x1022, 0x1483), (4, 16, 4, 16))
        h.gpu(port, "0000:%02x:00.0" % (bus + 1), "NVIDIA RTX A6000", 0x2230, 48, 65536, 0, (4, 16, 4, 16))
    port = h.port("pci0000:40", "0000:40:03.1", 0, 0x1D, (0x1022, 0x1483), (4, 16, 4, 16))
    h.nic(port, "0000:42:00.0", "mlx5_0", 100, layer="Ethernet", netdev="enp66s0np0", ids=(0x15B3, 0x1017), link=(3, 16, 3, 16), fw="16.35.3006")
    port = h.port("pci0000:00", "0000:00:03.1", 0, 0x01, (0x1022, 0x1483), (4, 4, 4, 4))
    h.nvme(port, "0000:02:00.0", 0, 0)
    h.peers(0, 1)
    h.nccl("2.23.4")
    h.mount("/", "259:0", "xfs", "/dev/nvme0n1", "rw,relatime", "rw,attr2,inode64,noquota")
    return h


def geforce():
    h = Host("consumer-geforce", "6.11.0-17-generic", ALDER, [(0, 64, "0-23")])
    h.process(root=False, memlock="8388608")
    h.modules = ["nvidia_uvm", "nvidia", "nvme", "nvme_core"]
    h.driver("565.77")
    root = h.root_bus("0000:00", (0x8086, 0x4660))
    h.function(root + "/0000:00:02.0", (0x8086, 0x4680), 0x030000, -1, "i915")
    for i, slot in enumerate(("01.0", "1c.0")):
        width = 16 if i == 0 else 4
        port = h.port(root, "0000:00:" + slot, -1, 0, (0x8086, 0x460D), (4, width, 4, 16))
        h.gpu(port, "0000:%02x:00.0" % (1 + i), "NVIDIA GeForce RTX 4090", 0x2684, 24, 256, -1, (4, width, 4, 16), resize_mib=0xFFC0, cls=0x030000)
        h.cuda_devices[i]["attributes"]["116"] = 0
    port = h.port(root, "0000:00:06.0", -1, 0, (0x8086, 0x464D), (4, 4, 4, 4))
    h.nvme(port, "0000:03:00.0", 0, 0, -1, model="Samsung SSD 990 PRO 2TB")
    h.peers(2, 0)
    h.cufile = {"error": {"origin": "os", "code": 2, "attempted": "load libcufile.so.0", "detail": "cannot open shared object file"}}
    h.mount("/", "259:0", "ext4", "/dev/nvme0n1", "rw,relatime")
    del h.files["/proc/kallsyms"]
    return h


def cloud_guest():
    h = Host("cloud-guest", "6.8.0-1021-gcp", SPR, [(0, 240, "0-15")], guest=True)
    h.modules = ["nvidia_uvm", "nvidia", "nvidia_peermem"]
    h.driver("580.95.05")
    root = "pci0000:00"
    h.function(root + "/0000:00:00.0", (0x8086, 0x29C0), 0x060000, -1)
    h.file("/sys/class/dmi/id/sys_vendor", "QEMU")
    h.virtio(root, "0000:00:04.0", "vda")
    for i in range(2):
        h.gpu(root, "0000:00:%02x.0" % (6 + i), "NVIDIA H200", 0x2335, 141, 262144, -1)
    for gpu in h.nvml_gpus:
        gpu["nvlinks"] = ["00000000:80:00.0"] * 18
        gpu["virtualization"] = 1
    h.peers(0, 1)
    h.udev = False
    h.files.pop("/run/udev/data/b254:0", None)
    h.mount("/", "254:0", "ext4", "/dev/vda", "rw,relatime")
    return h


def container():
    h = Host("container", "5.15.0-131-generic", SPR, [(0, 512, "0-55"), (1, 512, "56-111")])
    h.process(root=False, memlock="65536", seccomp=2, cgroup="0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-id-1.scope")
    h.udev = False
    h.modules = MODULES
    h.driver("550.90.07")
    for i in range(2):
        bus = 0x10 + 0x20 * i
        root = h.root_bus("0000:%02x" % bus, (0x8086, 0x09A2), i)
        up = h.switch(h.port(root, "0000:%02x:01.0" % bus, i), "0000:%02x" % (bus + 1), i)
        h.gpu(h.downstream(up, "0000:%02x:00.0" % (bus + 2), i), "0000:%02x:00.0" % (bus + 3), "NVIDIA H100 80GB HBM3", 0x2330, 80, 131072, i)
        h.nic(h.downstream(up, "0000:%02x:01.0" % (bus + 2), i), "0000:%02x:00.0" % (bus + 4), "mlx5_%d" % i, 400, i)
        h.nvme(h.downstream(up, "0000:%02x:02.0" % (bus + 2), i), "0000:%02x:00.0" % (bus + 5), i, i, i)
    for gpu in h.nvml_gpus:
        gpu["nvlinks"] = ["00000000:80:00.0"] * 18
    for path in [f for f in h.files if f.startswith("/dev/infiniband")]:
        del h.files[path]
    h.peers(0, 1)
    h.nccl("2.20.5")
    h.mount("/", "0:512", "overlay", "overlay", "rw,relatime")
    h.mount("/data", "259:1", "xfs", "/dev/nvme1n1", "rw,relatime", "rw,attr2,inode64,noquota")
    h.env = {"CUFILE_FORCE_COMPAT_MODE": "true"}
    return h


def nvmeof():
    h = Host("nvmeof-client", "6.8.0-60-generic", ICX, [(0, 256, "0-63")])
    h.iommu = "identity"
    h.modules = MODULES + ["nvme_rdma", "nvidia_peermem"]
    h.driver()
    h.nvidia_fs(("nvme", "nvme_rdma", "rpcrdma"))
    root = h.root_bus("0000:16", (0x8086, 0x09A2))
    up = h.switch(h.port(root, "0000:16:01.0"), "0000:17")
    h.gpu(h.downstream(up, "0000:18:00.0"), "0000:19:00.0", "NVIDIA L40S", 0x26B9, 48, 65536, 0, (4, 16, 4, 16))
    h.nic(h.downstream(up, "0000:18:01.0", acs=0x5D), "0000:1a:00.0", "mlx5_0", 200, netdev="ens1np0", layer="Ethernet", ats=True)
    boot = h.port(root, "0000:16:05.0", 0, 0, (0x8086, 0x347C), (4, 4, 4, 4))
    h.nvme(boot, "0000:1c:00.0", 0, 0)
    # Native multipath: the block device is a head, its controller a path.
    subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys1"
    controller = "/sys/devices/virtual/nvme-fabrics/ctl/nvme1"
    h.file(controller + "/transport", "rdma")
    h.file(controller + "/address", "traddr=192.0.2.10,trsvcid=4420,host_iface=ens1np0")
    h.links[subsystem + "/nvme1"] = controller
    h.folders[subsystem] = ["model", "nvme1", "nvme1n1"]
    h.block(subsystem + "/nvme1n1", "nvme1n1", "259:2")
    h.file(subsystem + "/nvme1n1/nsid", "1")
    h.links[subsystem + "/nvme1n1/device"] = subsystem
    h.file(subsystem + "/model", "Linux")
    h.file(subsystem + "/nvme1n1/device/model", "Linux")
    h.dm("dm-0", 0, ["nvme0n1"], "LVM-id-1")
    h.mount("/", "253:0", "ext4", "/dev/mapper/vg-root", "rw,relatime", "rw,data=ordered")
    h.mount("/remote", "259:2", "xfs", "/dev/nvme1n1", "rw,noatime", "rw,attr2,inode64,noquota")
    h.mount("/nfs", "0:60", "nfs4", "host-1:/export", "rw,relatime", "rw,vers=4.2,proto=rdma,addr=192.0.2.11")
    h.file("/etc/cufile.json", '{\n  // what stages here\n  "properties": { "allow_compat_mode": false, "gds_rdma_write_support": false }\n}')
    return h


def grace():
    h = Host("grace-hopper", "6.8.0-1026-nvidia-64k", ("", 0, 0, ""), [(0, 480, "0-71"), (0, 96, "")], arch="aarch64")
    h.modules = MODULES + ["nvidia_peermem"]
    h.driver("570.124.06", arch="aarch64")
    h.nvidia_fs()
    root = h.root_bus("0009:00", (0x10DE, 0x22B2))
    port = h.port(root, "0009:00:01.0", 0, 0x1D, (0x10DE, 0x22B8), (5, 16, 5, 16))
    h.gpu(port, "0009:01:00.0", "NVIDIA GH200 480GB", 0x2342, 96, 131072, 0, coherent=True)
    root = h.root_bus("0000:00", (0x10DE, 0x22B2))
    h.nic(h.port(root, "0000:00:01.0", 0, 0x1D, (0x10DE, 0x22B1)), "0000:01:00.0", "mlx5_0", 400, netdev="ibp1s0")
    root = h.root_bus("0002:00", (0x10DE, 0x22B2))
    h.nvme(h.port(root, "0002:00:01.0", 0, 0x1D, (0x10DE, 0x22B3), (5, 4, 5, 4)), "0002:01:00.0", 0, 0)
    h.peers(0, 1)
    folder = "/usr/lib/aarch64-linux-gnu"
    h.links[folder + "/libnccl.so.2"] = folder + "/libnccl.so.2.25.1"
    h.file(folder + "/libnccl.so.2.25.1", "")
    h.mount("/", "259:0", "ext4", "/dev/nvme0n1", "rw,relatime", "rw,data=ordered")
    return h


for make in (hgx, dual_socket, epyc, geforce, cloud_guest, container, nvmeof, grace):
    make().write()
