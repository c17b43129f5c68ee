// NCCL and RCCL logs: transports in use. A job of a thousand ranks says the same of a subject for
// each channel and far end: such lines are only counted.
#include "captures/nccl_log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

constexpr std::size_t subjects_max = 100'000;
constexpr std::size_t seen_max = 400'000;
constexpr std::size_t ranks_max = 1'000'000;

std::uint64_t nccl_hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = seed ^ 0x9E3779B97F4A7C15u;
  while (text.size() >= 8) {
    std::uint64_t block = 0;  // in the order of this processor: no hash leaves the process
    std::memcpy(&block, text.data(), sizeof(block));
    hash = (hash ^ block) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 29;
    text.remove_prefix(8);
  }
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  hash ^= hash >> 32;
  return hash * 0x94D049BB133111EBu;
}

/// A use whose front is missing.
bool nccl_bare_use(std::string_view text) {
  return has(text, " via ") && (has(text, "->") || has(text, "<-") || has(text, "COLLNET/"));
}

/// The other end of a line that a terminal broke: it names nobody and begins nothing.
bool nccl_may_continue(std::string_view text) {
  text = trim(text);
  return !text.empty() && text.size() < 120 && !has(text, "NCCL") && !has(text, "->") &&
         (text.front() == '/' || is_letter(text.front()) || text.front() == '[' ||
          is_digit(text.front()) || text.front() == '-' || text.front() == '>');
}

/// The other end of a whole line that was broken within or behind the adapter's number.
bool nccl_is_rest(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && at < 3 && is_digit(text[at])) ++at;
  if (at < text.size() && text[at] == '(') {
    const std::size_t close = text.find(')', at);
    if (close == std::string_view::npos || close > at + 10) return false;
    at = close + 1;
  }
  return starts(text.substr(at), "/GDRDMA") || starts(text.substr(at), "/Shared");
}

/// A bus id and no number of a device.
bool nccl_is_bus(std::string_view bracket, std::uint32_t version) {
  if (bracket.size() > 2) return true;
  if (version >= 21803) return false;
  for (const char c : bracket) {
    if (!is_digit(c)) return true;
  }
  const auto number = whole_number(bracket);
  if (version >= 20506) return true;
  return number.value_or(0) > 15;
}

}  // namespace

std::size_t NcclSeen::slot_of(std::uint64_t hash) const {
  std::size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].subject != none && slots_[slot].hash != hash)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

std::uint32_t NcclSeen::find(std::uint64_t hash) const {
  return slots_.empty() ? none : slots_[slot_of(hash)].subject;
}

void NcclSeen::add(std::uint64_t hash, std::size_t subject) {
  if (taken_ >= seen_max) return;
  if (2 * taken_ >= slots_.size()) grow();
  Slot& slot = slots_[slot_of(hash)];
  if (slot.subject != none) return;
  slot = {hash, static_cast<std::uint32_t>(subject)};
  ++taken_;
}

void NcclSeen::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.empty() ? 1024 : 2 * old.size(), Slot{});
  for (const Slot& slot : old) {
    if (slot.subject != none) slots_[slot_of(slot.hash)] = slot;
  }
}

void NcclSeen::clear() {
  slots_ = {};
  taken_ = 0;
}

void NcclLogParser::ensure(const Line& line) {
  if (!is_open()) open("nccl_log", line);
  reach(line);
}

void NcclLogParser::say(core::SignKind kind, const Line& line, const NcclLine& said,
                        std::string source, std::string target, std::string word, double value) {
  core::CaptureSign one;
  one.kind = kind;
  one.source = std::move(source);
  one.target = std::move(target);
  one.word = std::move(word);
  one.host = std::string(said.host);
  one.value = value;
  one.lines.push_back(evidence(line));
  sign(std::move(one));
}

bool NcclLogParser::first_time(std::string what) {
  constexpr std::size_t said_max = 100'000;
  return said_.size() < said_max && said_.insert(std::move(what)).second;
}

Vocabulary NcclLogParser::vocabulary() const {
  static constexpr std::string_view words[] = {"NCCL", " via ", "RCCL version", "HIP version",
                                               "ROCm version"};
  return {words, 0};
}

bool NcclLogParser::take(const Line& line) {
  if (!pending_.empty()) {
    if (continue_pending(line)) return true;
    settle_pending();
  }
  const std::size_t named = line.text.find("NCCL");
  if (named == std::string_view::npos && !nccl_bare_use(line.text)) {
    // RCCL's own, which stands alone.
    if (starts(trim(line.text), "RCCL version") && take_version(line)) return true;
    // Versions that RCCL prints between its lines.
    if (is_open() && (starts(line.text, "HIP version") || starts(line.text, "ROCm version"))) {
      reach(line);
      return true;
    }
    return false;
  }
  const NcclLine said = nccl_line(line.text, named);
  if (take_use(line, said)) return true;
  return take_words(line, said);
}

bool NcclLogParser::take_use(const Line& line, const NcclLine& said) {
  const auto use = nccl_use(said.body);
  if (!use.has_value()) {
    const std::string_view front = said.body.substr(0, 60);
    if (!starts(front, "Channel ") && !starts(front, "Ring ")) return false;
    if (nccl_via(said.body) == std::string_view::npos) {
      // Broken before `via`: wait for the rest.
      if (!said.marked || said.body.size() >= 60) return false;
      if (!has(front, "->") && !has(front, "<-")) return false;
    }
    wait_for_rest(line);
    return true;
  }
  const bool may_go_on = use->cut || (use->kind == NcclUseKind::network && !use->gdrdma);
  if ((!may_go_on || !broken_lines_) && count_again(line, said, *use)) return true;
  if (may_go_on) {
    wait_for_rest(line);
    return true;
  }
  ensure(line);
  add_use(line, said, *use);
  return true;
}

void NcclLogParser::wait_for_rest(const Line& line) {
  ensure(line);
  pending_ = std::string(line.text);
  pending_number_ = line.number;
  pending_open_ = line.open;
  listen(line, 1);
}

namespace {

/// A pair whose ends may be on two nodes: a device's number names neither there.
bool nccl_by_rank(const NcclUse& use) {
  return has(use.transport, "MNNVL") ||
         (!use.source.bracket.empty() && use.source.bracket == use.target.bracket &&
          use.source.rank != use.target.rank);
}

/// What names a subject: its node, both devices or the own one, the way.
std::uint64_t nccl_subject_hash(const NcclLine& said, const NcclUse& use, std::uint32_t version) {
  const auto rank_hash = [&](const NcclRank& rank, std::uint64_t seed) {
    if (!rank.bracket.empty() && !nccl_is_bus(rank.bracket, version))
      return nccl_hash(rank.bracket, seed);
    return nccl_hash("", seed * 31 + rank.rank * 8191ULL + said.device.value_or(77));
  };
  std::uint64_t hash = nccl_hash(said.host, static_cast<std::uint64_t>(use.kind) + 1);
  const bool local = use.kind == NcclUseKind::peer || use.kind == NcclUseKind::shared_memory;
  if (local) {
    hash = rank_hash(use.target, rank_hash(use.source, hash));
    if (said.host.empty() || nccl_by_rank(use))
      hash = nccl_hash("", (hash * 31 + use.source.rank) * 8191 + use.target.rank);
    return nccl_hash(use.transport, hash);
  }
  const bool receives = use.direction == "receive";
  hash = rank_hash(receives ? use.target : use.source, hash);
  if (use.proxy.has_value()) hash = nccl_hash("", hash * 31 + *use.proxy);
  hash = nccl_hash(use.plugin, hash * 4 + (receives ? 2 : 0) + (use.gdrdma ? 1 : 0));
  return nccl_hash("", hash * 31 + use.adapter.value_or(99'999));
}

}  // namespace

bool NcclLogParser::count_again(const Line& line, const NcclLine& said, const NcclUse& use) {
  if (use.cut || (use.proxy.has_value() && proxies_.count(*use.proxy) == 0)) return false;
  const std::uint32_t subject = seen_.find(nccl_subject_hash(said, use, version_));
  if (subject == NcclSeen::none) return false;
  ++lines_[subject];
  reach(line);
  return true;
}

bool NcclLogParser::continue_pending(const Line& line) {
  if (line.number != pending_number_ + 1 || !nccl_may_continue(line.text)) return false;
  const std::string_view next = trim(line.text);
  const NcclLine before_said = nccl_line(pending_);
  const auto alone = nccl_use(before_said.body);
  const bool whole = alone.has_value() && !alone->cut;
  // A whole line goes on only with what can follow it.
  if (whole && !nccl_is_rest(next)) return false;
  for (const std::string_view glue : {"", " "}) {
    std::string joined = pending_ + std::string(glue) + std::string(next);
    const NcclLine said = nccl_line(joined);
    const auto use = nccl_use(said.body);
    if (!use.has_value() || use->cut) continue;
    const Line first{joined, pending_number_};
    add_use(first, said, *use);
    broken_lines_ = true;
    pending_.clear();
    reach(line);
    return true;
  }
  return false;
}

void NcclLogParser::settle_pending() {
  const std::string text = std::move(pending_);
  pending_.clear();
  const NcclLine said = nccl_line(text);
  auto use = nccl_use(said.body);
  if (!use.has_value()) return;
  // The text ends here: what would tell may have stood behind it.
  if (pending_open_ && use->kind == NcclUseKind::network && !use->gdrdma) use->cut = true;
  add_use({text, pending_number_}, said, *use);
}

std::string NcclLogParser::gpu_of(const NcclRank& rank, const NcclLine& said, bool local) const {
  if (!rank.bracket.empty() && !nccl_is_bus(rank.bracket, version_))
    return "GPU" + std::string(rank.bracket);
  if (const auto place = ranks_.find(rank.rank); place != ranks_.end())
    return "GPU" + std::to_string(place->second.device);
  if (local && said.device.has_value()) return "GPU" + std::to_string(*said.device);
  return "rank" + std::to_string(rank.rank);
}

void NcclLogParser::remember_device(const NcclRank& rank) {
  if (rank.bracket.empty() || nccl_is_bus(rank.bracket, version_) ||
      rank_devices_.size() >= ranks_max)
    return;
  if (const auto device = whole_number(rank.bracket); device.has_value() && *device < 1024)
    rank_devices_.emplace(rank.rank, static_cast<std::uint32_t>(*device));
}

double NcclLogParser::device_of(std::uint32_t rank) const {
  if (const auto found = rank_devices_.find(rank); found != rank_devices_.end())
    return found->second;
  if (const auto place = ranks_.find(rank); place != ranks_.end()) return place->second.device;
  return -1;
}

bool NcclLogParser::nodes_unnamed() const {
  std::map<std::string, std::set<std::uint32_t>> ranks_of_device;
  std::map<std::uint32_t, std::set<std::string>> devices_of_rank;
  for (const NcclSubject& one : subjects_) {
    if (!one.host.empty() || one.target.empty()) continue;
    for (const auto& [device, rank] :
         {std::pair(one.source, one.source_rank), std::pair(one.target, one.target_rank)}) {
      ranks_of_device[device].insert(rank);
      devices_of_rank[rank].insert(device);
    }
  }
  // A rank that has two devices is of two communicators, whose ranks say nothing of nodes.
  for (const auto& [rank, devices] : devices_of_rank) {
    if (devices.size() > 1) return false;
  }
  return std::any_of(ranks_of_device.begin(), ranks_of_device.end(),
                     [](const auto& one) { return one.second.size() > 1; });
}

void NcclLogParser::add_use(const Line& line, const NcclLine& said, const NcclUse& use) {
  NcclSubject one;
  one.kind = use.kind;
  one.host = std::string(said.host);
  one.process = std::string(said.process);
  one.direction = std::string(use.direction);
  one.gdrdma = use.gdrdma;
  one.cut = use.cut;
  const bool local = use.kind == NcclUseKind::peer || use.kind == NcclUseKind::shared_memory;
  if (local) {
    one.source = gpu_of(use.source, said, true);
    one.target = gpu_of(use.target, said, false);
    if (local_ranks_.size() < ranks_max) {
      local_ranks_.insert(use.source.rank);
      local_ranks_.insert(use.target.rank);
    }
    if (nccl_by_rank(use)) {
      one.source = "rank" + std::to_string(use.source.rank);
      one.target = "rank" + std::to_string(use.target.rank);
    }
    one.transport = std::string(use.transport);
    if (one.host.empty()) {
      one.source_rank = use.source.rank;
      one.target_rank = use.target.rank;
    }
  } else {
    one.source = gpu_of(use.direction == "receive" ? use.target : use.source, said, true);
    one.plugin = std::string(use.plugin);
    one.adapter = use.adapter;
    one.proxy = use.proxy;
    if (use.proxy.has_value() && proxies_.size() < 4096) proxies_.insert(*use.proxy);
  }
  remember_device(use.source);
  remember_device(use.target);
  std::string key = std::to_string(static_cast<int>(one.kind)) + '|' + one.host + '|' + one.source +
                    '|' + one.target + '|' + one.direction + '|' + one.plugin + '|' +
                    (one.adapter.has_value() ? std::to_string(*one.adapter) : "") + '|' +
                    one.transport + (one.gdrdma ? "|g" : "") + (one.cut ? "|c" : "");
  if (one.proxy.has_value()) key += "|p" + std::to_string(*one.proxy);
  if (local && one.host.empty())
    key += '|' + std::to_string(one.source_rank) + '|' + std::to_string(one.target_rank);
  auto [found, fresh] = index_.try_emplace(std::move(key), subjects_.size());
  if (fresh) {
    if (subjects_.size() >= subjects_max) {
      index_.erase(found);
      dropped_ = true;
      return;
    }
    one.first = evidence(line);
    subjects_.push_back(std::move(one));
    lines_.push_back(0);
  }
  ++lines_[found->second];
  if (!use.cut) seen_.add(nccl_subject_hash(said, use, version_), found->second);
}

void NcclLogParser::leave_subjects() {
  bool sends = false, receives = false, sends_direct = true, receives_direct = true;
  std::set<std::uint32_t> used;
  const bool by_rank = nodes_unnamed();
  for (std::size_t i = 0; i < subjects_.size(); ++i) {
    const NcclSubject& one = subjects_[i];
    core::CaptureSign sign_of;
    sign_of.source = one.source;
    sign_of.target = one.target;
    sign_of.direction = one.direction;
    sign_of.host = one.host;
    sign_of.other = one.process;
    sign_of.lines.push_back(one.first);
    sign_of.second = static_cast<double>(lines_[i]);
    if (one.kind == NcclUseKind::peer || one.kind == NcclUseKind::shared_memory) {
      sign_of.kind =
          one.kind == NcclUseKind::peer ? core::SignKind::peer_use : core::SignKind::shared_memory;
      sign_of.word = one.transport;
      if (by_rank && one.host.empty()) {
        sign_of.source = "rank" + std::to_string(one.source_rank);
        sign_of.target = "rank" + std::to_string(one.target_rank);
      }
      if (!one.cut) {
        if (fact(facts(), "p2p_transport") == nullptr)
          set_fact(facts(), "p2p_transport", one.transport);
        add_item(facts(), "p2p_transports", one.transport);
      }
    } else {
      sign_of.kind = core::SignKind::net_use;
      sign_of.word = one.plugin;
      sign_of.value = one.gdrdma ? 1 : 0;
      const auto names = adapters_.find(one.host);
      if (one.adapter.has_value()) {
        used.insert(*one.adapter);
        sign_of.target = "NET" + std::to_string(*one.adapter);
        if (names != adapters_.end() && *one.adapter < names->second.size())
          sign_of.target = names->second[*one.adapter];
      }
      if (one.proxy.has_value()) sign_of.numbers.push_back(device_of(*one.proxy));
      set_fact(facts(), "plugin", one.plugin);
      (one.direction == "receive" ? receives : sends) = true;
      if (!one.gdrdma) (one.direction == "receive" ? receives_direct : sends_direct) = false;
    }
    if (one.cut) sign_of.other = "cut";
    sign(std::move(sign_of));
  }
  if (sends) set_fact(facts(), "gdrdma_send", sends_direct);
  if (receives) set_fact(facts(), "gdrdma_receive", receives_direct);
  for (const std::uint32_t adapter : used) add_item(facts(), "nics_used", adapter);
  if (proxies_.size() == 1) set_fact(facts(), "proxy_rank", *proxies_.begin());
  for (const std::uint32_t proxy : proxies_) add_item(facts(), "proxy_ranks", proxy);
}

void NcclLogParser::end() {
  if (!pending_.empty()) settle_pending();
  if (is_open()) {
    leave_subjects();
    leave_words();
    if (dropped_) set_fact(facts(), "further_subjects_dropped", true);
  }
  close();
  seen_.clear();
  index_.clear();
  subjects_.clear();
  lines_.clear();
  ranks_.clear();
  adapters_.clear();
  local_ranks_.clear();
  rank_devices_.clear();
  adapters_off_.clear();
  proxies_.clear();
  version_ = 0;
  ranks_total_ = nodes_ = 0;
  sockets_.reset();
  no_device_.reset();
  adapters_line_.reset();
  graph_line_.reset();
  said_.clear();
  dropped_ = broken_lines_ = false;
}

std::unique_ptr<Parser> nccl_log_parser(Sink& sink) {
  return std::make_unique<NcclLogParser>(sink);
}

}  // namespace nobounce::captures
