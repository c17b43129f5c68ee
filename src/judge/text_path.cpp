// Ports and paths: a port that redirects is the reason of nothing unless it lies on the way.
#include "judge/text_path.hpp"

#include <algorithm>

namespace nobounce::judge {

namespace {

bool is_above(const std::vector<std::string>& bridges, const std::string& port) {
  return std::find(bridges.begin(), bridges.end(), port) != bridges.end();
}

std::string ports_text(const std::vector<const core::CaptureSign*>& ports) {
  std::string names;
  std::size_t count = 0;
  for (const core::CaptureSign* port : ports) {
    if (port->source.empty()) continue;
    if (++count <= 4) names += (names.empty() ? "" : ", ") + port->source;
  }
  if (count == 0) return ports.size() == 1 ? "a port" : "ports";
  return count > 4 ? names + " and " + std::to_string(count - 4) + " more" : names;
}

/// What goes wrong behind ports that redirect: accesses to memory of the other device are refused,
/// lost or slow. A far side that is silent is no such thing.
bool may_be_redirected(const TextCase& text, const TextRow& row) {
  const core::ExplainedVerdict& verdict = row.verdict;
  if (verdict.verdict != Verdict::broken && verdict.verdict != Verdict::degraded) return false;
  if (verdict.member == Member::p2p) {
    const core::CaptureSign* level = text.level_of(row.source, row.target);
    return level == nullptr || level->word.rfind("NV", 0) != 0;
  }
  if (verdict.member != Member::rdma) return false;
  return verdict.verdict == Verdict::degraded || row.status == 4 || row.status == 8;
}

std::string ends_text(const TextRow& row) {
  return row.verdict.member == Member::rdma ? "GPU and adapter" : "the two";
}

}  // namespace

OnPath port_on_path(const TextCase& text, const TextRow& row, const std::string& port) {
  const std::string address = short_address(port);
  const std::vector<std::string>* source =
      row.source.empty() ? nullptr : text.bridges_above(row.source);
  const std::vector<std::string>* target =
      row.target.empty() ? nullptr : text.bridges_above(row.target);
  if (address.empty()) return OnPath::unknown;
  // The way leads up from one and down to the other: what is above both is not on it.
  if (source != nullptr && target != nullptr)
    return is_above(*source, address) != is_above(*target, address) ? OnPath::yes : OnPath::no;
  for (const std::vector<std::string>* known : {source, target}) {
    if (known != nullptr && !known->empty() && known->back() == address) return OnPath::yes;
  }
  return OnPath::unknown;
}

std::vector<const core::CaptureSign*> redirects_between(const TextCase& text, const TextRow& row,
                                                        OnPath where) {
  std::vector<const core::CaptureSign*> ports;
  std::size_t looked_at = 0;
  for (const core::CaptureSign* sign : text.all(core::SignKind::acs_redirect)) {
    if (++looked_at > 64) break;
    if (port_on_path(text, row, sign->source) == where) ports.push_back(sign);
  }
  return ports;
}

void blame_redirects(TextCase& text) {
  if (!text.any(core::SignKind::acs_redirect)) return;
  for (TextRow& row : text.rows()) {
    if (!may_be_redirected(text, row)) continue;
    const auto on_path = redirects_between(text, row, OnPath::yes);
    const auto possible = redirects_between(text, row, OnPath::unknown);
    if (on_path.empty() && possible.empty()) continue;
    blame(row, Cause::machine_acs_redirect);
    if (!on_path.empty()) {
      row.verdict.reason += "; " + ports_text(on_path) +
                            (on_path.size() == 1 ? " redirects" : " redirect") +
                            " peer requests on the way between " + ends_text(row);
      for (const core::CaptureSign* sign : on_path) cite(row, *sign);
      continue;
    }
    row.verdict.reason +=
        "; " + ports_text(possible) +
        (possible.size() == 1 ? " redirects peer requests, which may be why: no line shows whether "
                                "it lies between "
                              : " redirect peer requests, which may be why: no line shows whether "
                                "they lie between ") +
        ends_text(row);
    for (const core::CaptureSign* sign : possible) cite(row, *sign);
  }
}

}  // namespace nobounce::judge
