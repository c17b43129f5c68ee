// The one table of causes: stable ids for why something is so. Ids never change meaning; new ones
// are appended.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <nobounce/words.hpp>

namespace nobounce {

/// A stable cause. The numeric value is internal; the id text (`storage.nvidia_fs_absent`) is the
/// contract.
enum class Cause : std::uint16_t {
  none = 0,
#define NOBOUNCE_CAUSE(enumerator, id, member, kind, sentence, remedy) enumerator,
#include <nobounce/cause_list.inc>
#undef NOBOUNCE_CAUSE
  count_
};

/// One row of the table. `member` is empty text for causes that concern every member.
struct CauseRow {
  Cause cause = Cause::none;
  std::string_view id;
  std::string_view member;
  CauseKind kind = CauseKind::precondition;
  std::string_view sentence;  ///< what is so, in one sentence
  std::string_view remedy;    ///< what to do about it: a command where one exists, else a sentence
};

/// Every cause but `none`, in table order.
[[nodiscard]] std::span<const CauseRow> cause_table();

/// The row of a cause; for `none` a row with empty text.
[[nodiscard]] const CauseRow& cause_row(Cause cause);

/// `storage.nvidia_fs_absent`; empty for `none`.
[[nodiscard]] std::string_view to_string(Cause cause);

/// The cause with that exact id, or nothing.
[[nodiscard]] std::optional<Cause> cause_from_string(std::string_view id);

}  // namespace nobounce
