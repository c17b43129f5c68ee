// What captured texts amount to, for people.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "report/explain_report.hpp"

namespace nobounce::report {

namespace {

constexpr std::size_t explain_indent = 10;
constexpr std::size_t explain_subjects_max = 8;
constexpr std::size_t explain_lines_max = 5;

/// Rows that say the same of several subjects.
struct ExplainBlock {
  const core::ExplainedVerdict* first = nullptr;
  std::vector<const core::ExplainedVerdict*> rows;
};

std::vector<ExplainBlock> explain_blocks(const std::vector<core::ExplainedVerdict>& verdicts) {
  std::vector<ExplainBlock> blocks;
  for (const core::ExplainedVerdict& row : verdicts) {
    const auto same = std::find_if(blocks.begin(), blocks.end(), [&row](const ExplainBlock& block) {
      return block.first->member == row.member && block.first->verdict == row.verdict &&
             block.first->reason == row.reason && block.first->causes == row.causes;
    });
    if (same == blocks.end()) {
      // Different reasons without end are no help either.
      if (blocks.size() >= 500) continue;
      blocks.push_back({&row, {&row}});
    } else {
      same->rows.push_back(&row);
    }
  }
  return blocks;
}

std::string explain_direction(std::string_view direction) {
  if (direction == "both" || direction.empty()) return "";
  if (direction == "forward") return "";  // the order of the pair
  return fmt::format(" ({})", direction);
}

/// `GPU0-GPU1` is written `GPU0 -> GPU1` where one direction is meant.
std::string explain_subject(const core::ExplainedVerdict& row) {
  std::string subject = visible(row.subject);
  const std::size_t dash = subject.find('-');
  if (row.direction == "forward" && subject.rfind("GPU", 0) == 0 && dash != std::string::npos)
    subject = subject.substr(0, dash) + " -> " + subject.substr(dash + 1);
  return subject + explain_direction(row.direction);
}

std::string explain_subjects(const ExplainBlock& block) {
  std::string text;
  for (std::size_t i = 0; i < block.rows.size() && i < explain_subjects_max; ++i)
    text += (i == 0 ? "" : ", ") + explain_subject(*block.rows[i]);
  if (block.rows.size() > explain_subjects_max)
    text += fmt::format(" and {} more", block.rows.size() - explain_subjects_max);
  return text;
}

std::string explain_field(std::string_view name, std::string_view text, Style style) {
  std::string lines = wrapped(text, explain_indent, text_width);
  const std::string label = "  " + left(name, explain_indent - 2);
  return painted(label, Paint::faint, style) +
         (lines.size() > explain_indent ? lines.substr(explain_indent) : lines);
}

std::string explain_blanks(std::string text) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

std::string explain_ended(std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

std::string explain_evidence(const ExplainBlock& block, Style style) {
  std::string text;
  std::size_t shown = 0;
  std::size_t all = 0;
  std::vector<const core::TextLine*> seen;
  for (const core::ExplainedVerdict* row : block.rows) {
    for (const core::TextLine& line : row->evidence) {
      const bool again = std::any_of(seen.begin(), seen.end(), [&line](const core::TextLine* held) {
        return held->line == line.line && held->file == line.file;
      });
      if (again) continue;
      ++all;
      // One subject with its lines, of the others one each.
      if (shown >= explain_lines_max || (row != block.first && &line != &row->evidence.front()))
        continue;
      ++shown;
      seen.push_back(&line);
      const std::string place = fmt::format("{}:{}", visible(line.file), line.line);
      text +=
          painted("  " + left(shown == 1 ? "line" : "", explain_indent - 2), Paint::faint, style);
      text += painted(place, Paint::strong, style) + "  " +
              shortened(visible(explain_blanks(line.text))) + '\n';
    }
  }
  if (all > shown)
    text += fmt::format("{}and {} more lines\n", std::string(explain_indent, ' '), all - shown);
  return text;
}

std::string explain_block(const ExplainBlock& block, Style style) {
  const core::ExplainedVerdict& row = *block.first;
  std::string text =
      fmt::format("{} {}  {}\n", left(to_string(row.member), 7),
                  painted(left(to_string(row.verdict), 10), paint_of_verdict(row.verdict), style),
                  explain_subjects(block));
  text += explain_ended(explain_field("so", visible(row.reason), style));
  bool first = true;
  for (const Cause cause : row.causes) {
    text += explain_ended(
        explain_field(first ? "why" : "",
                      fmt::format("{}: {}", to_string(cause), cause_row(cause).sentence), style));
    first = false;
  }
  text += explain_evidence(block, style);
  if (!row.remedy.empty()) text += explain_ended(explain_field("do", visible(row.remedy), style));
  return text;
}

/// What has more than is kept of one text: nothing is left out in silence.
std::string explain_dropped(const core::Explanation& explanation, Style style) {
  std::string text;
  for (const core::CapturePiece& piece : explanation.pieces) {
    std::string what;
    for (const auto& [name, value] : piece.facts) {
      constexpr std::string_view begin = "further_";
      constexpr std::string_view end = "_dropped";
      if (name.size() <= begin.size() + end.size() || name.compare(0, begin.size(), begin) != 0 ||
          name.compare(name.size() - end.size(), end.size(), end) != 0)
        continue;
      what += (what.empty() ? "" : ", ") +
              name.substr(begin.size(), name.size() - begin.size() - end.size());
      if (value.as_unsigned() != nullptr) what += fmt::format(" ({})", *value.as_unsigned());
    }
    if (!what.empty())
      text +=
          painted(fmt::format("  {} has more {} than are kept: what follows does not know them\n",
                              visible(piece.file), what),
                  Paint::strong, style);
  }
  return text;
}

std::string explain_pieces(const core::Explanation& explanation, Style style) {
  std::string text;
  std::size_t shown = 0;
  for (const core::CapturePiece& piece : explanation.pieces) {
    if (++shown > 20) {
      text += fmt::format("  and {} more\n", explanation.pieces.size() - 20);
      break;
    }
    const std::string lines = piece.first_line == piece.last_line
                                  ? fmt::format("line {}", piece.first_line)
                                  : fmt::format("lines {}-{}", piece.first_line, piece.last_line);
    text += painted(fmt::format("  {} {}, {}\n", left(piece.kind, 16), visible(piece.file), lines),
                    Paint::faint, style);
  }
  return text;
}

/// What would decide it, where a text was read and shows no transfer.
std::string explain_undecided(const core::Explanation& explanation) {
  const auto any = [&explanation](std::string_view kind) {
    return std::any_of(explanation.pieces.begin(), explanation.pieces.end(),
                       [kind](const core::CapturePiece& piece) { return piece.kind == kind; });
  };
  std::string what =
      any("nccl_log")
          ? "a log of the run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,P2P,NET,SHM, up to "
            "the "
            "lines `Channel ... via ...`: they come with the first collective or send"
          : "output of a transfer itself: a log that names the transport in use, a counter before "
            "and after, a measurement with its data compared";
  return "\n" + explain_ended(wrapped("Nothing that was read shows how bytes travelled. What would "
                                      "decide it: " +
                                          what + ".",
                                      0, text_width));
}

}  // namespace

std::string explanation_text(const core::Explanation& explanation, Style style) {
  if (explanation.pieces.empty()) {
    return "nothing was recognised: overall unknown\n\n" +
           explain_ended(wrapped(
               "nobounce explain reads nvidia-smi (topo -m, topo -p2p, -q, -L), NCCL and RCCL logs "
               "and "
               "topologies, UCX protocol tables, NVSHMEM logs, gdscheck, cufile.log, gdsio, "
               "gds_stats, "
               "/proc/driver/nvidia-fs, lspci -vvv and -tv, lsmod, dmesg, ibv_devinfo, perftest, "
               "p2pBandwidthLatencyTest, simpleP2P, nvbandwidth, peer-memory counters, perf stat, "
               "rocm-smi, KvikIO, and errors of UCX, NIXL and Mooncake.",
               2, text_width));
  }
  std::string text =
      "read\n" + explain_pieces(explanation, style) + explain_dropped(explanation, style);
  for (const std::string& file : explanation.unrecognised)
    text += painted(fmt::format("  {}: nothing in it was recognised\n", visible(file)),
                    Paint::strong, style);
  for (const ExplainBlock& block : explain_blocks(explanation.verdicts))
    text += '\n' + explain_block(block, style);
  if (explanation.verdicts.empty())
    text += '\n' + explain_ended(wrapped("nothing in it shows how bytes travelled, or what keeps "
                                         "them from a way: lines of a run would",
                                         0, text_width));
  if (explanation.verdicts.empty()) text += explain_undecided(explanation);
  text += fmt::format("\noverall {}\n", painted(to_string(explanation.overall),
                                                paint_of_verdict(explanation.overall), style));
  return text;
}

}  // namespace nobounce::report
