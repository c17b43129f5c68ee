// Lines of a text, each offered to the parsers in turn.
#include "captures/read_text.hpp"

#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

constexpr std::size_t line_bytes_max = 64u << 10;

}  // namespace

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"nccl_log", nccl_log_parser},
      {"topo_amd", amd_topology_parser},
      {"topo_m", topo_matrix_parser},
      {"p2p_bw", peer_bandwidth_parser},
      {"nvbandwidth", nvbandwidth_parser},
      {"simple_p2p", simple_p2p_parser},
      {"gdsio", gdsio_parser},
      {"cufile_log", cufile_log_parser},
      {"kvikio", kvikio_parser},
      {"nvidia_fs", nvidia_fs_parser},
      {"gdscheck", gdscheck_parser},
      {"gds_stats", gds_stats_parser},
      {"nccl_topo_xml", nccl_topology_parser},
      {"ucx_proto", ucx_protocol_parser},
      {"nvshmem_log", nvshmem_log_parser},
      {"perftest", perftest_parser},
      {"ibv_devinfo", ibv_devinfo_parser},
      {"peer_memory", peer_memory_parser},
      {"registration", registration_parser},
      {"module_messages", module_messages_parser},
      {"kernel_messages", kernel_messages_parser},
      {"lspci_tree", lspci_tree_parser},
      {"lspci_verbose", lspci_verbose_parser},
      {"perf_counters", perf_counters_parser},
      {"lsmod", lsmod_parser},
      {"mounts", mounts_parser},
      {"device_list", device_list_parser},
      {"smi_query", smi_query_parser},
  };
  return all;
}

TextReader::TextReader(std::string_view only, Showing showing) {
  for (const Format& format : formats()) {
    if (only.empty() || format.name == only) parsers_.push_back(format.make(sink_));
  }
  assert(parsers_.size() <= 32);
  listens_until_.assign(parsers_.size(), 0);
  for (std::size_t i = 0; i < parsers_.size(); ++i) {
    const Vocabulary vocabulary = parsers_[i]->vocabulary();
    lines_behind_.push_back(vocabulary.lines_behind);
    if (vocabulary.words.empty() || showing == Showing::every_line) shown_all_ |= 1U << i;
    for (const std::string_view word : vocabulary.words) words_.add(word, 1U << i);
    if (i == 0 && !vocabulary.words.empty()) first_word_ = vocabulary.words.front();
  }
}

void TextReader::begin(std::string file) {
  sink_.begin_text(std::move(file));
  decoder_.begin();
  carry_.clear();
  number_ = 0;
  dropping_ = false;
  node_.clear();
  maybe_node_.clear();
  below_rule_ = false;
}

void TextReader::feed(std::string_view bytes) {
  split(decoder_.decode(bytes));
}

void TextReader::split(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto* found = static_cast<const char*>(std::memchr(bytes.data(), '\n', bytes.size()));
    if (found == nullptr) {
      if (!dropping_) carry_ += bytes.substr(0, line_bytes_max + 1);
      if (carry_.size() > line_bytes_max && !dropping_) {
        take_line(std::string_view(carry_).substr(0, line_bytes_max), true);
        carry_.clear();
        dropping_ = true;
      }
      return;
    }
    const auto length = static_cast<std::size_t>(found - bytes.data());
    const std::string_view line = bytes.substr(0, length);
    bytes.remove_prefix(length + 1);
    if (dropping_) {
      dropping_ = false;
    } else if (carry_.empty()) {
      take_line(line.substr(0, line_bytes_max), line.size() > line_bytes_max);
    } else {
      carry_ += line.substr(0, line_bytes_max + 1);
      take_line(std::string_view(carry_).substr(0, line_bytes_max), carry_.size() > line_bytes_max);
      carry_.clear();
    }
  }
}

void TextReader::end() {
  split(decoder_.end());
  if (!carry_.empty()) take_line(carry_, true);
  carry_.clear();
  for (const auto& parser : parsers_) parser->end();
  listening_ = 0;
}

void TextReader::take_line(std::string_view raw, bool open) {
  ++number_;
  offer(clean_line(raw, buffer_), open);
}

bool TextReader::offer_to_all(const Line& line) {
  std::uint32_t refused = 0;
  if (!found_.has_value()) {
    // Of the largest logs nearly all lines are the first parser's, and need no look at all words.
    if (has(line.text, first_word_)) {
      if (offer_to(0, line)) return true;
      refused = 1;
    }
    // What is offered of the line later is a part of this, and has no other words.
    found_ = shown_all_ | words_.marks_in(line.text);
  }
  for (std::uint32_t left = (*found_ | listening(line.number)) & ~refused; left != 0;
       left &= left - 1) {
    if (offer_to(static_cast<std::size_t>(std::countr_zero(left)), line)) return true;
  }
  return false;
}

bool TextReader::offer_to(std::size_t parser, const Line& line) {
  const bool taken = parsers_[parser]->take(line);
  listens_until_[parser] = parsers_[parser]->listens_until(lines_behind_[parser]);
  if (listens_until_[parser] >= line.number) listening_ |= 1U << parser;
  return taken;
}

std::uint32_t TextReader::listening(std::uint64_t number) {
  for (std::uint32_t left = listening_; left != 0; left &= left - 1) {
    const int parser = std::countr_zero(left);
    if (listens_until_[static_cast<std::size_t>(parser)] < number) listening_ &= ~(1U << parser);
  }
  return listening_;
}

void TextReader::look_for_node(std::string_view text) {
  if (const auto node = node_of_command(text); node.has_value()) {
    node_ = std::string(*node);
    return;
  }
  if (is_rule(text)) {
    if (!maybe_node_.empty()) node_ = std::exchange(maybe_node_, std::string());
    below_rule_ = true;
    return;
  }
  if (!maybe_node_.empty()) maybe_node_.clear();
  if (!below_rule_) return;
  if (is_node_name(text)) maybe_node_ = std::string(trim(text));
  below_rule_ = false;
}

void TextReader::offer(std::string_view text, bool open) {
  look_for_node(text);
  found_.reset();
  Line line{text, number_, node_, open};
  if (offer_to_all(line)) return;
  // Then without what collectors put in front of a line.
  const std::string_view bare = without_prefixes(text);
  line.text = bare;
  if (bare.size() != text.size() && offer_to_all(line)) return;
  const std::string_view rest = without_node(bare);
  if (rest.empty()) return;
  line.node = node_of(bare);
  line.text = rest;
  if (offer_to_all(line)) return;
  const std::string_view inner = without_prefixes(rest);
  line.text = inner;
  if (inner.size() != rest.size()) (void)offer_to_all(line);
}

core::Captures TextReader::finish() {
  core::Captures captures = sink_.take();
  join_readings(captures);
  return captures;
}

core::Captures read_text(std::string_view text, std::string file) {
  TextReader reader;
  reader.begin(std::move(file));
  reader.feed(text);
  reader.end();
  return reader.finish();
}

}  // namespace nobounce::captures
