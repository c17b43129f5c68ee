// Pairs the rows of two proofs and compares what they conclude.
#include "proof/against.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace nobounce::proof {
namespace {

bool same_row(const ProofRow& one, const ProofRow& two) {
  return one.member == two.member && one.source == two.source && one.target == two.target &&
         one.direction == two.direction && one.issuer == two.issuer;
}

std::string name_of(const ProofRow& row) {
  std::string name(to_string(row.member));
  name += " " + row.source + " -> " + row.target + " " + row.direction;
  if (row.issuer != Issuer::host) name += " by " + std::string(to_string(row.issuer));
  return name;
}

/// In one order, so that the same causes found in another order are no change.
std::string text_of(const std::vector<Cause>& causes) {
  std::vector<std::string> ids;
  ids.reserve(causes.size());
  for (const Cause cause : causes) ids.emplace_back(to_string(cause));
  std::sort(ids.begin(), ids.end());
  std::string text;
  for (const std::string& id : ids) text += (text.empty() ? "" : ", ") + id;
  return text.empty() ? "none" : text;
}

void add_field(ProofChange& change, const char* name, std::string before, std::string after) {
  if (before != after) change.fields.push_back({name, std::move(before), std::move(after)});
}

ProofChange compare(const ProofRow& before, const ProofRow& after) {
  ProofChange change{ProofChangeKind::changed, name_of(after), {}};
  const auto text = [](auto word) { return std::string(to_string(word)); };
  add_field(change, "verdict", text(before.verdict), text(after.verdict));
  add_field(change, "known", text(before.known), text(after.known));
  add_field(change, "link", text(before.link), text(after.link));
  add_field(change, "poster", text(before.poster), text(after.poster));
  add_field(change, "causes", text_of(before.causes), text_of(after.causes));
  return change;
}

}  // namespace

std::vector<ProofChange> changes_since(const Proof& before, const Proof& after) {
  std::vector<ProofChange> changes;
  ProofChange machine{ProofChangeKind::changed, "machine", {}};
  add_field(machine, "kind", before.host_kind, after.host_kind);
  add_field(machine, "name", before.machine, after.machine);
  if (!machine.fields.empty()) changes.push_back(std::move(machine));

  std::vector<bool> found(before.rows.size(), false);
  for (const ProofRow& row : after.rows) {
    std::size_t index = 0;
    while (index < before.rows.size() && (found[index] || !same_row(before.rows[index], row)))
      ++index;
    if (index == before.rows.size()) {
      changes.push_back({ProofChangeKind::appeared,
                         name_of(row),
                         {{"verdict", "", std::string(to_string(row.verdict))}}});
      continue;
    }
    found[index] = true;
    ProofChange change = compare(before.rows[index], row);
    if (!change.fields.empty()) changes.push_back(std::move(change));
  }
  for (std::size_t index = 0; index < before.rows.size(); ++index) {
    if (found[index]) continue;
    const ProofRow& row = before.rows[index];
    changes.push_back({ProofChangeKind::vanished,
                       name_of(row),
                       {{"verdict", std::string(to_string(row.verdict)), ""}}});
  }
  return changes;
}

}  // namespace nobounce::proof
