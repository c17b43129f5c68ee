// All rules over one case, and the rows in order.
#include "judge/explain.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "judge/text_case.hpp"

namespace nobounce::judge {

namespace {

int explained_rank(Verdict verdict) {
  switch (verdict) {
    case Verdict::broken:
      return 0;
    case Verdict::impossible:
      return 1;
    case Verdict::staged:
      return 2;
    case Verdict::degraded:
      return 3;
    case Verdict::unknown:
      return 4;
    case Verdict::direct:
      return 5;
  }
  return 4;
}

/// Rows that others make superfluous.
void leave_out(TextCase& text) {
  std::map<Member, NodePairs> decided;
  std::set<Member> any_decided;
  for (const TextRow& row : text.rows()) {
    const Member member = row.verdict.member;
    if (row.verdict.verdict != Verdict::unknown) {
      any_decided.insert(member);
      decided[member].add(row.host, row.source, row.target);
    }
  }
  auto& all_rows = text.rows();
  all_rows.erase(std::remove_if(all_rows.begin(), all_rows.end(),
                                [&](const TextRow& row) {
                                  if (row.verdict.verdict != Verdict::unknown) return false;
                                  const Member member = row.verdict.member;
                                  if (row.weight == RowWeight::pair_only) {
                                    if (row.source.empty() && row.target.empty()) return false;
                                    return decided[member].has(row.host, row.source, row.target);
                                  }
                                  return row.weight == RowWeight::background &&
                                         any_decided.count(member) > 0;
                                }),
                 all_rows.end());
}

using RowKey = std::tuple<Member, std::string, std::string>;

/// One row per subject and direction where they say the same; where they contradict, the worse one
/// stands, with the lines of both. An unknown row says nothing against another.
void join_rows(std::vector<TextRow>& all_rows) {
  std::map<RowKey, std::size_t> index;
  std::vector<TextRow> joined;
  for (TextRow& row : all_rows) {
    const RowKey key{row.verdict.member, row.verdict.subject, row.verdict.direction};
    const auto [found, fresh] = index.try_emplace(key, joined.size());
    if (fresh) {
      joined.push_back(std::move(row));
      continue;
    }
    TextRow& held = joined[found->second];
    const bool both_unknown =
        held.verdict.verdict == Verdict::unknown && row.verdict.verdict == Verdict::unknown;
    const bool worse = explained_rank(row.verdict.verdict) < explained_rank(held.verdict.verdict);
    const bool settles = held.verdict.verdict == Verdict::unknown && !both_unknown;
    if ((worse && row.verdict.verdict != Verdict::unknown) || settles) std::swap(held, row);
    for (const Cause cause : row.verdict.causes) {
      if (row.verdict.verdict == held.verdict.verdict) blame(held, cause);
    }
    for (const core::TextLine& line : row.verdict.evidence) {
      if (held.verdict.evidence.size() < 12 &&
          std::find(held.verdict.evidence.begin(), held.verdict.evidence.end(), line) ==
              held.verdict.evidence.end())
        held.verdict.evidence.push_back(line);
    }
  }
  all_rows = std::move(joined);
}

}  // namespace

Verdict worse_of(Verdict a, Verdict b) {
  return explained_rank(a) <= explained_rank(b) ? a : b;
}

core::Explanation explain(core::Captures captures) {
  TextCase text(captures);
  judge_text_p2p(text);
  judge_text_rdma(text);
  judge_text_storage(text);
  judge_text_async(text);
  blame_redirects(text);
  judge_text_machine(text);
  leave_out(text);
  join_rows(text.rows());
  core::Explanation explanation;
  for (TextRow& row : text.rows()) {
    row.verdict.remedy = text_remedy(text, row);
    explanation.verdicts.push_back(std::move(row.verdict));
  }
  std::stable_sort(explanation.verdicts.begin(), explanation.verdicts.end(),
                   [](const core::ExplainedVerdict& a, const core::ExplainedVerdict& b) {
                     return explained_rank(a.verdict) < explained_rank(b.verdict);
                   });
  if (!explanation.verdicts.empty()) explanation.overall = explanation.verdicts.front().verdict;
  explanation.pieces = std::move(captures.pieces);
  return explanation;
}

}  // namespace nobounce::judge
