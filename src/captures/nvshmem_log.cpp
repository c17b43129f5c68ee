// NVSHMEM's messages: transports that were left out, who rings the doorbell, what is missing.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class NvshmemLogParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"mype: ",
                                                 "nvshmem",
                                                 "NVSHMEM",
                                                 "ibgda",
                                                 "cudaHostRegister with IoMemory failed",
                                                 "NIC handler",
                                                 "Skipping transport",
                                                 "on the specified memory type"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    if (starts(trim(text), "mype: ") || has(text, " mype: ")) return take_element(text, line);
    const bool own = has(text, "nvshmem") || has(text, "NVSHMEM") || has(text, "ibgda");
    if (has(text, "cudaHostRegister with IoMemory failed")) {
      ensure(line);
      if (const auto error = signed_number(after(text, "error=").value_or("")); error.has_value())
        set_fact(facts(), "error", *error);
      sign(core::SignKind::doorbell_unmapped, line);
      return true;
    }
    if (!own && !has(text, "NIC handler") && !has(text, "Skipping transport") &&
        !has(text, "on the specified memory type"))
      return false;
    return take_message(text, line);
  }

  void end() override { close(); }

 private:
  void ensure(const Line& line) {
    if (!is_open()) open("nvshmem_log", line);
    reach(line);
  }

  bool take_element(std::string_view text, const Line& line) {
    const auto name = after(text, "device name:");
    if (!name.has_value()) return false;
    ensure(line);
    if (const auto element = number_after(text, "mype:"); element.has_value())
      set_fact(facts(), "pe", *element);
    set_fact(facts(), "gpu", trim(before(*name, "bus id")));
    return true;
  }

  bool take_message(std::string_view text, const Line& line) {
    const std::string lowered = lower(text);
    if (has(lowered, "nvidia_peermem detected") || has(lowered, "nv_peer_mem detected") ||
        (has(lowered, "skipping transport") && has(lowered, "peer"))) {
      ensure(line);
      sign(core::SignKind::transport_skipped, line);
      return true;
    }
    if (has(lowered, "cannot allocate buffer on the specified memory type")) {
      ensure(line);
      sign(core::SignKind::registration_failed, line, "", "", "nvshmem");
      return true;
    }
    if (const auto handler = after(lowered, "nic handler will be "); handler.has_value()) {
      ensure(line);
      const bool cpu = starts(*handler, "cpu");
      set_fact(facts(), "nic_handler", cpu ? "CPU" : "GPU");
      sign(cpu ? core::SignKind::cpu_rings : core::SignKind::graph_shown, line, "", "",
           cpu ? "" : "nic handler");
      return true;
    }
    if (has(lowered, "stream memops support is not available") || has(lowered, "stream mem ops") ||
        has(lowered, "streammemop")) {
      if (!has(lowered, "not ")) return false;
      ensure(line);
      set_fact(facts(), "stream_memory_operations", false);
      sign(core::SignKind::memops_absent, line);
      return true;
    }
    if (has(lowered, "ibgda") && (has(lowered, "fall back") || has(lowered, "fallback") ||
                                  has(lowered, "falling back") || has(lowered, "disabled"))) {
      ensure(line);
      sign(core::SignKind::device_fallback, line);
      return true;
    }
    if (!has(text, "NVSHMEM INFO") && !has(text, "NVSHMEM WARN") && !has(text, "nvshmem_src"))
      return false;
    ensure(line);
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> nvshmem_log_parser(Sink& sink) {
  return std::make_unique<NvshmemLogParser>(sink);
}

}  // namespace nobounce::captures
