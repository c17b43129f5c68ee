// The driver files of a software machine, and the whole view put together.
#include "fabric/soft_files.hpp"

#include <cstddef>
#include <string>

#include "fabric/soft_files_parts.hpp"

namespace nobounce::fabric {
namespace {

void add_nvidia_driver(FileTree& tree, const Machine& machine) {
  const std::string root = "/proc/driver/nvidia";
  // dma-buf export of GPU memory is a thing of the open kernel modules.
  tree.add_text(root + "/version", std::string("NVRM version: NVIDIA UNIX ") +
                                       (machine.kernel.dmabuf ? "Open Kernel Module for x86_64"
                                                              : "x86_64 Kernel Module") +
                                       "  " + machine.kernel.nvidia_driver + "  Release Build\n");
  std::string params = "EnableGpuFirmware: 18\n";
  if (machine.modules.parameters.count("nvidia.RegistryDwords") == 0) {
    params += "RegistryDwords: \"\"\n";
  }
  for (const auto& [name, value] : machine.modules.parameters) {
    if (name.substr(0, 7) != "nvidia.") continue;
    const bool text = name == "nvidia.RegistryDwords";
    params += name.substr(7) + ": " + (text ? '"' + value + '"' : value) + '\n';
  }
  tree.add_text(root + "/params", params);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    tree.add_text(root + "/gpus/" + gpu.bdf + "/information",
                  "Model: \t\t " + gpu.product + "\nGPU UUID: \t " + gpu.uuid +
                      "\nBus Type: \t PCIe\nBus Location: \t " + gpu.bdf + "\nDevice Minor: \t " +
                      std::to_string(i) + '\n');
    if (gpu.coherent) {
      tree.add_text(root + "/gpus/" + gpu.bdf + "/numa_status", "Node: 1\nStatus: online\n");
    }
    tree.add_text("/dev/nvidia" + std::to_string(i), "");
  }
  tree.add_text("/dev/nvidiactl", "");
  tree.add_text("/dev/nvidia-uvm", "");
  if (machine.fabric_manager == FabricManager::running) {
    tree.add_text("/run/nvidia-fabricmanager/nv-fabricmanager.pid", "1\n");
  }
}

}  // namespace

void add_driver_files(FileTree& tree, const Machine& machine, const NvfsModule& module) {
  if (!machine.gpus.empty()) add_nvidia_driver(tree, machine);
  if (machine.modules.nvidia_peermem) {
    tree.add_text("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3\n");
  }
  if (!machine.modules.nvidia_fs) return;
  const std::string root = "/proc/driver/nvidia-fs";
  tree.add_made_text(root + "/version", [&] { return module.version_text(); });
  tree.add_made_text(root + "/devcount", [&] { return module.devcount_text(); });
  tree.add_made_text(root + "/modules", [&] { return module.modules_text(); });
  tree.add_made_text(root + "/stats", [&] { return module.stats_text(); });
  tree.add_made_text(root + "/peer_affinity", [&] { return module.peer_affinity_text(); });
  tree.add_text("/sys/module/nvidia_fs/parameters/rw_stats_enabled", "1\n");
  tree.add_text("/sys/module/nvidia_fs/parameters/peer_stats_enabled", "1\n");
  tree.add_text("/dev/nvidia-fs0", "");
  const auto loaded = [&] { return module.loaded(); };
  tree.show_while(root, loaded);
  tree.show_while("/sys/module/nvidia_fs", loaded);
  tree.show_while("/dev/nvidia-fs0", loaded);
}

std::unique_ptr<system::Files> make_soft_files(const Machine& machine, const NvfsModule& module,
                                               const Ledger& ledger) {
  auto tree = std::make_unique<FileTree>();
  const std::vector<PciFunction> functions = lay_out_pci(machine);
  add_pci_files(*tree, machine, functions);
  add_drive_files(*tree, machine, functions, ledger);
  add_nic_files(*tree, machine, functions);
  add_kernel_files(*tree, machine, module);
  add_driver_files(*tree, machine, module);
  return tree;
}

}  // namespace nobounce::fabric
