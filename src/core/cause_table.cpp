// The table of causes as data, and look-up by id.
#include <cstddef>
#include <iterator>

#include <nobounce/cause.hpp>

namespace nobounce {

namespace {

constexpr CauseRow rows[] = {
    CauseRow{},
#define NOBOUNCE_CAUSE(enumerator, id, member, kind, sentence, remedy) \
  CauseRow{Cause::enumerator, id, member, CauseKind::kind, sentence, remedy},
#include <nobounce/cause_list.inc>
#undef NOBOUNCE_CAUSE
};

static_assert(std::size(rows) == static_cast<std::size_t>(Cause::count_));

}  // namespace

std::span<const CauseRow> cause_table() {
  return std::span<const CauseRow>(rows).subspan(1);
}

const CauseRow& cause_row(Cause cause) {
  const auto index = static_cast<std::size_t>(cause);
  return index < std::size(rows) ? rows[index] : rows[0];
}

std::string_view to_string(Cause cause) {
  return cause_row(cause).id;
}

std::optional<Cause> cause_from_string(std::string_view id) {
  for (const CauseRow& row : cause_table()) {
    if (row.id == id) return row.cause;
  }
  return std::nullopt;
}

}  // namespace nobounce
