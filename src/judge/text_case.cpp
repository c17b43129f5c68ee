// Lookups over everything captured.
#include "judge/text_case.hpp"

#include <algorithm>
#include <utility>

namespace nobounce::judge {

namespace {

bool text_holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::pair<std::string, std::string> unordered_pair(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

int nearness(const std::string& word) {
  if (word == "PIX") return 0;
  if (word == "PXB") return 1;
  if (word == "PHB") return 2;
  if (word == "NODE") return 3;
  return word == "SYS" ? 4 : -1;
}

bool text_is_gpu(const std::string& name) {
  return name.rfind("GPU", 0) == 0 && name.size() > 3;
}

std::string short_address(const std::string& address) {
  const std::size_t colon = address.find(':');
  if (colon == std::string::npos || address.find(':', colon + 1) == std::string::npos)
    return address;
  return address.find_first_not_of('0') < colon ? address : address.substr(colon + 1);
}

void NodePairs::add(const std::string& host, const std::string& a, const std::string& b) {
  auto pair = unordered_pair(a, b);
  named_.emplace(host, pair.first, pair.second);
  any_.insert(std::move(pair));
}

bool NodePairs::has(const std::string& host, const std::string& a, const std::string& b) const {
  const auto pair = unordered_pair(a, b);
  if (host.empty()) return any_.count(pair) > 0;
  return named_.count({host, pair.first, pair.second}) > 0 ||
         named_.count({"", pair.first, pair.second}) > 0;
}

TextCase::TextCase(const core::Captures& captures) : captures_(captures) {
  std::map<std::string, std::string> by_address;
  std::set<std::uint32_t> versions;
  for (const core::CaptureSign& sign : captures.signs) {
    by_kind_[sign.kind].push_back(&sign);
    if (!sign.host.empty() && hosts_.size() < 4096) hosts_.insert(sign.host);
    if (sign.kind == core::SignKind::product) products_.emplace(sign.source, sign.word);
    if (sign.kind == core::SignKind::gpu_address) {
      by_address.emplace(sign.word, sign.source);
      addresses_.emplace(sign.source, short_address(sign.word));
    }
    if (sign.kind == core::SignKind::nic_name) {
      adapter_names_.emplace(sign.source, sign.word);
      matrix_names_.emplace(sign.word, sign.source);
    }
    if (sign.kind == core::SignKind::peer_status)
      statuses_.emplace(std::pair(sign.source, sign.target), &sign);
    if (sign.kind == core::SignKind::net_use && sign.direction == "receive" && sign.value > 0)
      receiving_.emplace(sign.host, sign.source);
    if (sign.kind == core::SignKind::peer_disabled) {
      const auto pair = unordered_pair(sign.source, sign.target);
      refusals_.emplace(std::tuple(sign.host, pair.first, pair.second), &sign);
      any_refusals_.emplace(pair, &sign);
    }
    if (sign.kind == core::SignKind::gdr_off_adapter) {
      adapters_off_.emplace(sign.host, &sign);
      adapters_off_.emplace("*", &sign);
    }
    if (sign.kind == core::SignKind::setting) settings_.emplace(sign.word, &sign);
    if (sign.kind == core::SignKind::module_loaded) modules_.emplace(sign.word, &sign);
    if (sign.kind == core::SignKind::module_absent) {
      std::vector<const core::CaptureSign*>& absent = absent_[sign.word];
      if (absent.size() < 12) absent.push_back(&sign);
    }
    if (sign.kind == core::SignKind::library_version && sign.word == "rccl") amd_ = true;
    if (sign.kind == core::SignKind::library_version && sign.word == "nccl")
      versions.insert(static_cast<std::uint32_t>(sign.value));
    if ((sign.kind == core::SignKind::peer_access || sign.kind == core::SignKind::peer_connected) &&
        sign.value == 0)
      cannot_.emplace(sign.source, sign.target);
    if (sign.kind == core::SignKind::gpu_memory)
      memories_.emplace(std::pair(sign.piece, sign.source), &sign);
    if (sign.kind == core::SignKind::bar1_size &&
        (smallest_bar1_ == nullptr || sign.value < smallest_bar1_->value))
      smallest_bar1_ = &sign;
    if (sign.kind != core::SignKind::level) continue;
    levels_.emplace(unordered_pair(sign.source, sign.target), &sign);
    if (text_is_gpu(sign.target) || nearness(sign.word) < 0) continue;
    adapters_of_[sign.source].insert(sign.target);
    const auto [found, fresh] = nearest_.emplace(sign.source, &sign);
    if (!fresh && nearness(sign.word) < nearness(found->second->word)) found->second = &sign;
  }
  if (versions.size() == 1) nccl_version_ = *versions.begin();
  for (const core::CapturePiece& piece : captures.pieces) {
    if (piece.kind == "lspci_tree") take_bridges(piece);
  }
  // Products known by address, as lspci names them.
  for (const auto& [address, gpu] : by_address) {
    const auto found = products_.find(address);
    if (found != products_.end()) products_.emplace(gpu, found->second);
  }
  // One product is shown, without saying of which GPU, or all are the same.
  for (const auto& [name, product] : products_) {
    if (!only_product_.empty() && only_product_ != product) {
      only_product_.clear();
      break;
    }
    only_product_ = product;
  }
}

/// `81:00.0` with the path `root:80 80:01.0 81:00.0`.
void TextCase::take_bridges(const core::CapturePiece& piece) {
  for (const auto& [name, value] : piece.facts) {
    if (name != "paths" || value.as_object() == nullptr) continue;
    for (const auto& [address, path] : *value.as_object()) {
      if (path.as_text() == nullptr) continue;
      std::vector<std::string> above;
      std::string_view rest = *path.as_text();
      while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        const std::string step(rest.substr(0, end));
        if (step.rfind("root:", 0) != 0) above.push_back(short_address(step));
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      bridges_.emplace(short_address(address), std::move(above));
    }
  }
}

const std::vector<std::string>* TextCase::bridges_above(const std::string& device) const {
  const auto address = addresses_.find(device);
  const auto found =
      bridges_.find(address == addresses_.end() ? short_address(device) : address->second);
  return found == bridges_.end() ? nullptr : &found->second;
}

std::size_t TextCase::adapters_of(const std::string& gpu) const {
  const auto found = adapters_of_.find(gpu);
  return found == adapters_of_.end() ? 0 : found->second.size();
}

const std::vector<const core::CaptureSign*>& TextCase::all(core::SignKind kind) const {
  const auto found = by_kind_.find(kind);
  return found == by_kind_.end() ? none_ : found->second;
}

const core::CaptureSign* TextCase::first(core::SignKind kind) const {
  const auto found = by_kind_.find(kind);
  return found == by_kind_.end() ? nullptr : found->second.front();
}

std::string TextCase::product_of(const std::string& gpu) const {
  const auto found = products_.find(gpu);
  return found != products_.end() ? found->second : only_product_;
}

bool TextCase::is_geforce(const std::string& gpu) const {
  const std::string product = product_of(gpu);
  // Pascal's GeForce still has peer access over PCIe.
  return text_holds(product, "GeForce") && !text_holds(product, "GTX 10") &&
         !text_holds(product, "GTX 9");
}

bool TextCase::any_geforce() const {
  return std::any_of(products_.begin(), products_.end(), [](const auto& one) {
    return text_holds(one.second, "GeForce") && !text_holds(one.second, "GTX 10") &&
           !text_holds(one.second, "GTX 9");
  });
}

bool TextCase::coherent() const {
  if (any(core::SignKind::coherent)) return true;
  return std::any_of(products_.begin(), products_.end(), [](const auto& one) {
    return text_holds(one.second, "GB200") || text_holds(one.second, "GB300") ||
           text_holds(one.second, "GH200") || text_holds(one.second, "Grace");
  });
}

const core::CaptureSign* TextCase::level_of(const std::string& a, const std::string& b) const {
  const auto names = [this](const std::string& name) {
    std::vector<std::string> all_names = {name};
    if (const auto found = matrix_names_.find(name); found != matrix_names_.end())
      all_names.push_back(found->second);
    if (const auto found = adapter_names_.find(name); found != adapter_names_.end())
      all_names.push_back(found->second);
    return all_names;
  };
  for (const std::string& first_name : names(a)) {
    for (const std::string& second_name : names(b)) {
      const auto found = levels_.find(unordered_pair(first_name, second_name));
      if (found != levels_.end()) return found->second;
    }
  }
  return nullptr;
}

std::string TextCase::name_of_adapter(const std::string& adapter) const {
  const auto found = matrix_names_.find(adapter);
  return found == matrix_names_.end() ? adapter : found->second;
}

std::string TextCase::device_of_adapter(const std::string& adapter) const {
  const auto found = adapter_names_.find(adapter);
  return found == adapter_names_.end() ? adapter : found->second;
}

const core::CaptureSign* TextCase::memory_beside(const core::CaptureSign& window) const {
  const auto found = memories_.find(std::pair(window.piece, window.source));
  return found == memories_.end() ? nullptr : found->second;
}

const core::CaptureSign* TextCase::module_loaded(std::string_view name) const {
  const auto found = modules_.find(std::string(name));
  return found == modules_.end() ? nullptr : found->second;
}

std::vector<const core::CaptureSign*> TextCase::module_absent(const std::string& name) const {
  const auto found = absent_.find(name);
  return found == absent_.end() ? std::vector<const core::CaptureSign*>() : found->second;
}

const core::CaptureSign* TextCase::setting(std::string_view name) const {
  const auto found = settings_.find(std::string(name));
  return found == settings_.end() ? nullptr : found->second;
}

const core::CaptureSign* TextCase::adapter_off(const std::string& host) const {
  auto found = adapters_off_.find(host.empty() ? "*" : host);
  if (found == adapters_off_.end()) found = adapters_off_.find("");
  return found == adapters_off_.end() ? nullptr : found->second;
}

const core::CaptureSign* TextCase::nearest_adapter(const std::string& gpu) const {
  const auto found = nearest_.find(gpu);
  return found == nearest_.end() ? nullptr : found->second;
}

TextRow& TextCase::add(Member member, Verdict verdict, std::string subject, std::string direction,
                       std::string reason) {
  TextRow row;
  row.verdict.member = member;
  row.verdict.verdict = verdict;
  row.verdict.subject = std::move(subject);
  row.verdict.direction = std::move(direction);
  row.verdict.reason = std::move(reason);
  if (verdict == Verdict::unknown) row.weight = RowWeight::open;
  rows_.push_back(std::move(row));
  return rows_.back();
}

bool TextCase::decided(Member member) const {
  return std::any_of(rows_.begin(), rows_.end(), [member](const TextRow& row) {
    return row.verdict.member == member && row.verdict.verdict != Verdict::unknown;
  });
}

NodePairs TextCase::decided_pairs(Member member) const {
  NodePairs pairs;
  for (const TextRow& row : rows_) {
    if (row.verdict.member == member && row.verdict.verdict != Verdict::unknown)
      pairs.add(row.host, row.source, row.target);
  }
  return pairs;
}

const core::CaptureSign* TextCase::status_of(const std::string& a, const std::string& b) const {
  const auto found = statuses_.find(std::pair(a, b));
  return found == statuses_.end() ? nullptr : found->second;
}

const core::CaptureSign* TextCase::refusal_of(const std::string& host, const std::string& a,
                                              const std::string& b) const {
  const auto pair = unordered_pair(a, b);
  if (host.empty()) {
    const auto any = any_refusals_.find(pair);
    return any == any_refusals_.end() ? nullptr : any->second;
  }
  auto found = refusals_.find(std::tuple(host, pair.first, pair.second));
  if (found == refusals_.end())
    found = refusals_.find(std::tuple(std::string(), pair.first, pair.second));
  return found == refusals_.end() ? nullptr : found->second;
}

bool TextCase::cannot(const std::string& a, const std::string& b) const {
  return cannot_.count(std::pair(a, b)) > 0;
}

void blame(TextRow& row, Cause cause) {
  std::vector<Cause>& causes = row.verdict.causes;
  if (cause != Cause::none && std::find(causes.begin(), causes.end(), cause) == causes.end())
    causes.push_back(cause);
}

void cite(TextRow& row, const core::CaptureSign& sign) {
  for (const core::TextLine& line : sign.lines) {
    std::vector<core::TextLine>& evidence = row.verdict.evidence;
    if (evidence.size() >= 12) return;
    if (std::find(evidence.begin(), evidence.end(), line) == evidence.end())
      evidence.push_back(line);
  }
}

std::string pair_subject(const TextCase& text, const std::string& host, const std::string& source,
                         const std::string& target) {
  std::string subject = source;
  if (!target.empty()) subject += (subject.empty() ? "" : "-") + target;
  if (text.several_hosts() && !host.empty()) subject = host + ":" + subject;
  return subject;
}

}  // namespace nobounce::judge
