// One case: everything captured of a machine, looked up by the rules, and the rows they write.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/explanation.hpp"

namespace nobounce::judge {

/// How easily a row is left out: a capability is of no interest where use is shown.
enum class RowWeight : std::uint8_t {
  decided,     ///< a use, a measurement, an error, a refusal
  open,        ///< unknown, and worth saying although others are decided
  pair_only,   ///< unknown; left out where this pair is decided
  background,  ///< unknown; left out where anything of the member is said
};

struct TextRow {
  core::ExplainedVerdict verdict;
  RowWeight weight = RowWeight::decided;
  std::string source;
  std::string target;
  std::string host;
  std::string process;  ///< of a log
  std::string format;   ///< of the text that shows it
  int status = 0;       ///< of a completion that failed; below zero: something else of the job did
  bool use = false;     ///< direct because a line shows the path in use
};

/// Pairs of devices, by node. Where a text names no node, it may be any.
class NodePairs {
 public:
  void add(const std::string& host, const std::string& a, const std::string& b);
  [[nodiscard]] bool has(const std::string& host, const std::string& a, const std::string& b) const;

 private:
  std::set<std::tuple<std::string, std::string, std::string>> named_;
  std::set<std::pair<std::string, std::string>> any_;
};

class TextCase {
 public:
  explicit TextCase(const core::Captures& captures);

  [[nodiscard]] const core::Captures& captures() const { return captures_; }
  [[nodiscard]] const std::vector<const core::CaptureSign*>& all(core::SignKind kind) const;
  [[nodiscard]] bool any(core::SignKind kind) const { return !all(kind).empty(); }
  [[nodiscard]] const core::CaptureSign* first(core::SignKind kind) const;

  // What is known of devices.
  [[nodiscard]] std::string product_of(const std::string& gpu) const;
  /// NVIDIA's stock driver offers this product no peer access over PCIe.
  [[nodiscard]] bool is_geforce(const std::string& gpu) const;
  [[nodiscard]] bool any_geforce() const;
  /// PIX, NV18, ...; nothing where no text tells. Adapters by either name.
  [[nodiscard]] const core::CaptureSign* level_of(const std::string& a, const std::string& b) const;
  /// As the matrix calls an adapter: NIC3 for mlx5_3, where a legend says so.
  [[nodiscard]] const core::CaptureSign* status_of(const std::string& a,
                                                   const std::string& b) const;
  /// A library was told by the driver that the pair may not.
  [[nodiscard]] const core::CaptureSign* refusal_of(const std::string& host, const std::string& a,
                                                    const std::string& b) const;
  /// A library of this node, or of one without a name, found no way to give GPU memory away.
  [[nodiscard]] const core::CaptureSign* adapter_off(const std::string& host) const;
  /// The nearest adapter of a GPU in the matrix.
  [[nodiscard]] const core::CaptureSign* nearest_adapter(const std::string& gpu) const;
  /// Adapters that a matrix shows for this GPU.
  [[nodiscard]] std::size_t adapters_of(const std::string& gpu) const;
  /// A line shows that this GPU receives directly.
  [[nodiscard]] bool receives_directly(const std::string& host, const std::string& gpu) const {
    return receiving_.count({host, gpu}) > 0;
  }
  /// The bridges above a device, from its root port on; nothing where no tree shows it.
  [[nodiscard]] const std::vector<std::string>* bridges_above(const std::string& device) const;
  /// Of NCCL; 0 where no line says it, or where lines say several.
  [[nodiscard]] std::uint32_t nccl_version() const { return nccl_version_; }
  /// RCCL: AMD's GPUs, whose modules and tools have other names.
  [[nodiscard]] bool amd() const { return amd_; }
  /// Lines that say that a module is absent; some of them.
  [[nodiscard]] std::vector<const core::CaptureSign*> module_absent(const std::string& name) const;
  /// A test says that the ordered pair has no peer access.
  [[nodiscard]] bool cannot(const std::string& a, const std::string& b) const;
  [[nodiscard]] std::string name_of_adapter(const std::string& adapter) const;
  /// As commands and settings call it: mlx5_3 for NIC3.
  [[nodiscard]] std::string device_of_adapter(const std::string& adapter) const;
  [[nodiscard]] const core::CaptureSign* smallest_bar1() const { return smallest_bar1_; }
  /// The memory that the same text tells of the same GPU.
  [[nodiscard]] const core::CaptureSign* memory_beside(const core::CaptureSign& window) const;
  /// Grace and the like: distances of PCIe do not apply.
  [[nodiscard]] bool coherent() const;
  [[nodiscard]] bool guest() const { return any(core::SignKind::guest); }
  [[nodiscard]] const core::CaptureSign* module_loaded(std::string_view name) const;
  [[nodiscard]] const core::CaptureSign* setting(std::string_view name) const;
  [[nodiscard]] bool several_hosts() const { return hosts_.size() > 1; }

  // Rows.
  TextRow& add(Member member, Verdict verdict, std::string subject, std::string direction,
               std::string reason);
  [[nodiscard]] std::vector<TextRow>& rows() { return rows_; }
  [[nodiscard]] bool decided(Member member) const;
  /// Pairs of devices with a verdict, in either order.
  [[nodiscard]] NodePairs decided_pairs(Member member) const;

 private:
  void take_bridges(const core::CapturePiece& piece);

  const core::Captures& captures_;
  std::map<core::SignKind, std::vector<const core::CaptureSign*>> by_kind_;
  std::map<std::string, std::string> products_;
  std::map<std::string, std::string> adapter_names_;  ///< NIC0 -> mlx5_0
  std::map<std::string, std::string> matrix_names_;   ///< mlx5_0 -> NIC0
  std::map<std::pair<std::string, std::string>, const core::CaptureSign*> levels_;
  std::map<std::pair<std::string, std::string>, const core::CaptureSign*> statuses_;
  /// By node, and by none for a use whose node is not known.
  std::map<std::tuple<std::string, std::string, std::string>, const core::CaptureSign*> refusals_;
  std::map<std::pair<std::string, std::string>, const core::CaptureSign*> any_refusals_;
  std::map<std::string, const core::CaptureSign*> adapters_off_;  ///< by node
  std::map<std::string, const core::CaptureSign*> nearest_;       ///< by GPU
  std::map<std::string, std::set<std::string>> adapters_of_;      ///< by GPU
  std::set<std::pair<std::string, std::string>> receiving_;       ///< by node
  std::map<std::string, std::string> addresses_;                  ///< of GPUs
  std::map<std::string, std::vector<std::string>> bridges_;       ///< by address
  std::map<std::string, const core::CaptureSign*> settings_;
  std::map<std::string, const core::CaptureSign*> modules_;
  std::map<std::string, std::vector<const core::CaptureSign*>> absent_;
  std::string only_product_;
  bool amd_ = false;
  std::uint32_t nccl_version_ = 0;
  std::set<std::pair<std::string, std::string>> cannot_;
  std::map<std::pair<std::uint64_t, std::string>, const core::CaptureSign*> memories_;
  const core::CaptureSign* smallest_bar1_ = nullptr;
  std::vector<const core::CaptureSign*> none_;
  std::set<std::string> hosts_;
  std::vector<TextRow> rows_;
};

/// PIX 0, PXB 1, PHB 2, NODE 3, SYS 4; below zero for other words.
[[nodiscard]] int nearness(const std::string& word);
[[nodiscard]] bool text_is_gpu(const std::string& name);
/// `81:00.0` for 0000:81:00.0 and 00000000:81:00.0.
[[nodiscard]] std::string short_address(const std::string& address);
[[nodiscard]] std::pair<std::string, std::string> unordered_pair(const std::string& a,
                                                                 const std::string& b);
/// Adds a cause once, and the lines of a sign.
void blame(TextRow& row, Cause cause);
void cite(TextRow& row, const core::CaptureSign& sign);
/// `node-a:GPU0-GPU1` where there are several nodes.
[[nodiscard]] std::string pair_subject(const TextCase& text, const std::string& host,
                                       const std::string& source, const std::string& target);

// The rules, member by member. Each writes rows.
void judge_text_p2p(TextCase& text);
void judge_text_machine(TextCase& text);
void judge_text_rdma(TextCase& text);
void judge_text_storage(TextCase& text);
void judge_text_async(TextCase& text);
/// Ports that redirect, for rows that failed as pairs behind such ports do. After the members.
void blame_redirects(TextCase& text);

/// What to do, and for an unknown row what would decide.
[[nodiscard]] std::string text_remedy(const TextCase& text, const TextRow& row);

}  // namespace nobounce::judge
