// All parsers, one per format. Each is also a fuzz target.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "captures/parser.hpp"

namespace nobounce::captures {

[[nodiscard]] std::unique_ptr<Parser> topo_matrix_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> smi_query_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> device_list_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> nccl_log_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> nccl_topology_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> ucx_protocol_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> nvshmem_log_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> gdscheck_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> cufile_log_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> gds_stats_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> gdsio_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> nvidia_fs_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> lspci_verbose_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> lspci_tree_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> lsmod_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> module_messages_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> kernel_messages_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> registration_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> ibv_devinfo_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> perftest_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> peer_bandwidth_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> simple_p2p_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> nvbandwidth_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> peer_memory_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> perf_counters_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> amd_topology_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> mounts_parser(Sink& sink);
[[nodiscard]] std::unique_ptr<Parser> kvikio_parser(Sink& sink);

struct Format {
  std::string_view name;
  std::unique_ptr<Parser> (*make)(Sink& sink);
};
/// In the order in which a line is offered to them.
[[nodiscard]] const std::vector<Format>& formats();

}  // namespace nobounce::captures
