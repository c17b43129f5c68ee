// `nvidia-smi topo -m` and `topo -p2p`: matrices of all eras, also with glued headers and cells,
// broken lines and rows that are missing.
#include <algorithm>

#include "captures/device_names.hpp"
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct TopoColumns {
  std::vector<std::string> names;
  bool has_affinity = false;
  bool has_gpu_numa = false;
};

/// Length of a cell of either alphabet at the front.
std::size_t topo_cell_length(std::string_view text) {
  if (starts(text, "NV") && text.size() > 2 && is_digit(text[2])) {
    std::size_t length = 3;
    while (length < text.size() && is_digit(text[length])) ++length;
    return length;
  }
  for (const std::string_view word : {"NODE", "SYS", "PHB", "PXB", "PIX", "SOC", "C2C", "PSB",
                                      "N/A", "CNS", "GNS", "TNS", "NS", "OK", "DR", "X", "U"}) {
    if (starts(text, word)) return word.size();
  }
  return 0;
}

bool topo_is_level(std::string_view cell) {
  return starts(cell, "NV") || cell == "NODE" || cell == "SYS" || cell == "PHB" || cell == "PXB" ||
         cell == "PIX" || cell == "SOC" || cell == "C2C" || cell == "PSB";
}

bool topo_is_status(std::string_view cell) {
  return cell == "OK" || cell == "CNS" || cell == "GNS" || cell == "TNS" || cell == "NS" ||
         cell == "DR" || cell == "U";
}

/// Cells from the front; `rest` is what follows them.
std::vector<std::string_view> topo_cells(std::string_view& rest, std::size_t most) {
  std::vector<std::string_view> cells;
  while (cells.size() < most) {
    const std::string_view text = trim(rest);
    const std::size_t length = topo_cell_length(text);
    if (length == 0) break;
    const bool lone = length == text.size() || !is_letter(text[length]);
    if (!lone && topo_cell_length(text.substr(length)) == 0 &&
        device_name_length(text.substr(length)) == 0)
      break;  // `Xeon`, `Use`
    cells.push_back(text.substr(0, length));
    rest = text.substr(length);
  }
  return cells;
}

std::optional<TopoColumns> topo_columns(std::string_view text) {
  TopoColumns columns;
  while (true) {
    text = trim(text);
    const std::size_t length = device_name_length(text);
    if (length == 0) break;
    columns.names.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  columns.has_affinity = starts(text, "CPU") || starts(text, "NUMA");
  columns.has_gpu_numa = has(text, "GPU NUMA ID");
  const bool tail = columns.has_affinity || text.empty() || starts(text, "GPU NUMA");
  if (columns.names.empty() || columns.names.size() > 256 || !tail) return std::nullopt;
  if (columns.names.size() < 2 && !columns.has_affinity) return std::nullopt;
  if (!is_gpu_name(columns.names.front())) return std::nullopt;
  for (std::size_t i = 1; i < columns.names.size(); ++i) {
    if (std::find(columns.names.begin(), columns.names.begin() + static_cast<std::ptrdiff_t>(i),
                  columns.names[i]) != columns.names.begin() + static_cast<std::ptrdiff_t>(i))
      return std::nullopt;
  }
  return columns;
}

/// A header may follow a command on the same line.
std::optional<TopoColumns> topo_header(std::string_view text) {
  if (auto columns = topo_columns(text); columns.has_value()) return columns;
  const std::size_t at = text.find("GPU0");
  if (at == std::string_view::npos || at == 0 || !has(text.substr(0, at), "topo"))
    return std::nullopt;
  return topo_columns(text.substr(at));
}

class TopoMatrixParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"GPU0", "GPU1", "GPU2",       "GPU3",
                                                 "GPU4", "GPU5", "GPU6",       "GPU7",
                                                 "GPU8", "GPU9", "nvidia-smi", "NIC Legend"};
    return {words, 40};
  }

  bool take(const Line& line) override {
    if (has(line.text, "nvidia-smi") && has(line.text, "topo")) take_command(line);
    if (const auto columns = topo_header(line.text); columns.has_value()) {
      begin(line, *columns);
      return true;
    }
    if (take_row(line) || take_continuation(line) || take_legend(line)) return true;
    return has(line.text, "nvidia-smi") && has(line.text, " topo ");
  }

  void end() override {
    finish();
    legend_.clear();
    flags_.clear();
    close();
  }

 private:
  struct Cell {
    std::string word;
    std::size_t line = 0;  ///< index in lines_
  };

  void take_command(const Line& line) {
    const auto rest = after(line.text, "topo");
    flags_ = std::string(trim(rest.value_or("")));
    if (const auto option = after(flags_, "-p2p"); option.has_value())
      asked_ = std::string(first_word(*option).substr(0, 1));
    else
      asked_.clear();
  }

  void begin(const Line& line, const TopoColumns& columns) {
    finish();
    open("topo_m", line);
    columns_ = columns;
    cells_.assign(columns.names.size() * columns.names.size(), {});
    rows_.assign(columns.names.size(), 0);
    lines_.clear();
    row_.reset();
    affinity_ = coherent_ = false;
    header_ = evidence(line);
  }

  /// The column that a row's label names.
  std::optional<std::size_t> label_of(std::string_view text, std::size_t& length) const {
    std::optional<std::size_t> best;
    length = 0;
    for (std::size_t i = 0; i < columns_.names.size(); ++i) {
      const std::string& name = columns_.names[i];
      if (!starts(text, name) || name.size() <= length) continue;
      if (name.size() < text.size() && is_digit(text[name.size()])) continue;
      best = i;
      length = name.size();
    }
    return best;
  }

  bool take_row(const Line& line) {
    if (columns_.names.empty() || !near(line, 12)) return false;
    std::string_view text = trim(line.text);
    std::size_t length = 0;
    const auto label = label_of(text, length);
    if (!label.has_value()) return false;
    text.remove_prefix(length);
    if (starts(text, ":")) return false;  // a legend
    std::string_view rest = text;
    const std::vector<std::string_view> cells = topo_cells(rest, columns_.names.size());
    if (cells.empty()) return false;
    reach(line);
    row_ = *label;
    rows_[*label] = 0;
    store(cells, line);
    if (is_gpu_name(columns_.names[*label])) {
      const std::string_view tail = trim(rest);
      if (!tail.empty() && is_digit(tail.front())) affinity_ = true;
      // Memory of a GPU that is a NUMA node of its own: only coherent machines have that.
      const std::vector<std::string_view> words = words_of(tail);
      const bool numbered = words.size() >= 3 &&
                            words.back().find_first_not_of("0123456789") == std::string_view::npos;
      if (columns_.has_gpu_numa && numbered && !coherent_) {
        coherent_ = true;
        set_fact(facts(), "coherent", true);
        sign(core::SignKind::coherent, line, columns_.names[*label]);
      }
    }
    return true;
  }

  void store(const std::vector<std::string_view>& cells, const Line& line) {
    const std::size_t width = columns_.names.size();
    lines_.push_back(evidence(line));
    for (const std::string_view cell : cells) {
      if (rows_[*row_] >= width) break;
      cells_[*row_ * width + rows_[*row_]] = {std::string(cell), lines_.size() - 1};
      ++rows_[*row_];
    }
  }

  /// The rest of a row that a terminal broke.
  bool take_continuation(const Line& line) {
    if (!row_.has_value() || !near(line, 1) || rows_[*row_] >= columns_.names.size()) return false;
    std::string_view rest = line.text;
    const std::vector<std::string_view> cells =
        topo_cells(rest, columns_.names.size() - rows_[*row_]);
    if (cells.empty()) return false;
    if (starts(trim(rest), "=")) return false;  // `X = Self`
    reach(line);
    store(cells, line);
    return true;
  }

  bool take_legend(const Line& line) {
    const std::string_view text = trim(line.text);
    if (text == "NIC Legend:" || text == "NIC Legend") {
      if (!near(line, 40)) {
        finish();
        open("topo_m", line);
        columns_ = {};
        header_ = evidence(line);
      }
      reach(line);
      return true;
    }
    if (starts(text, "Legend:") && near(line, 4)) {
      row_.reset();
      reach(line);
      return true;
    }
    const std::size_t equals = text.find(" = ");
    if (equals != std::string_view::npos && near(line, 8)) {
      const std::string_view word = trim(text.substr(0, equals));
      if (topo_cell_length(word) == word.size() || word == "NV#") {
        row_.reset();
        reach(line);
        return true;
      }
    }
    if (!starts(text, "NIC") || !near(line, 40)) return false;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos || device_name_length(text) != colon) return false;
    const std::string_view device = first_word(text.substr(colon + 1));
    if (device.empty()) return false;
    reach(line);
    set_entry(facts(), "nic_names", text.substr(0, colon), device);
    legend_.emplace_back(text.substr(0, colon));
    sign(core::SignKind::nic_name, line, std::string(text.substr(0, colon)), "",
         std::string(device));
    return true;
  }

  void finish() {
    if (!is_open()) return;
    if (columns_.names.empty()) {
      if (!legend_.empty()) set_fact(facts(), "nics", static_cast<std::uint64_t>(legend_.size()));
      if (!legend_.empty()) leave_shown(legend_.front());
      legend_.clear();
      return;
    }
    const auto gpus = static_cast<std::size_t>(
        std::count_if(columns_.names.begin(), columns_.names.end(), is_gpu_name));
    set_fact(facts(), "gpus", static_cast<std::uint64_t>(gpus));
    set_fact(facts(), "nics", static_cast<std::uint64_t>(columns_.names.size() - gpus));
    leave_cells();
    const bool partial = std::any_of(rows_.begin(), rows_.end(), [this](std::size_t cells) {
      return cells < columns_.names.size();
    });
    set_fact(facts(), "partial", partial);
    leave_unsaid();
    if (columns_.has_affinity) set_fact(facts(), "affinity_hidden", !affinity_);
    if (starts(flags_, "-mp")) {
      set_fact(facts(), "nvlink_hidden", true);
      core::CaptureSign hidden;
      hidden.kind = core::SignKind::nvlink_hidden;
      hidden.lines.push_back(header_);
      sign(std::move(hidden));
    }
    columns_ = {};
    flags_.clear();
    legend_.clear();
  }

  void leave_shown(std::string device) {
    core::CaptureSign shown;
    shown.kind = core::SignKind::topology_shown;
    shown.target = std::move(device);
    shown.word = "legend";
    shown.lines.push_back(header_);
    sign(std::move(shown));
  }

  void leave_cells() {
    const std::size_t width = columns_.names.size();
    bool any_status = false;
    for (std::size_t row = 0; row < width; ++row) {
      for (std::size_t column = 0; column < width; ++column) {
        if (row == column) continue;
        const Cell& cell = cells_[row * width + column];
        if (topo_is_status(cell.word)) {
          leave_status(row, column, cell);
          any_status = true;
        } else if (topo_is_level(cell.word)) {
          leave_level(row, column, cell);
        }
      }
    }
    if (any_status && !asked_.empty()) set_fact(facts(), "p2p_property", asked_);
    if (!any_status) {
      core::CaptureSign shown;
      shown.kind = core::SignKind::topology_shown;
      shown.word = "matrix";
      shown.lines.push_back(header_);
      sign(std::move(shown));
    }
  }

  void leave_level(std::size_t row, std::size_t column, const Cell& cell) {
    // Above the diagonal, or where the row above is missing.
    const std::size_t width = columns_.names.size();
    if (row > column && topo_is_level(cells_[column * width + row].word)) return;
    const std::string& first = columns_.names[std::min(row, column)];
    const std::string& second = columns_.names[std::max(row, column)];
    set_entry(facts(), "levels", first + "-" + second, cell.word);
    core::CaptureSign one;
    one.kind = core::SignKind::level;
    one.source = first;
    one.target = second;
    one.word = cell.word == "SOC" ? "SYS" : cell.word;
    one.lines.push_back(lines_[cell.line]);
    sign(std::move(one));
  }

  /// Devices that are there, and of which no cell was seen.
  void leave_unsaid() {
    const std::size_t width = columns_.names.size();
    for (std::size_t device = 0; device < width; ++device) {
      bool said = width == 1;
      for (std::size_t other = 0; other < width && !said; ++other) {
        said = other != device && (!cells_[device * width + other].word.empty() ||
                                   !cells_[other * width + device].word.empty());
      }
      if (!said) add_item(facts(), "devices_unsaid", columns_.names[device]);
    }
  }

  void leave_status(std::size_t row, std::size_t column, const Cell& cell) {
    const std::string& source = columns_.names[row];
    const std::string& target = columns_.names[column];
    const Cell& other = cells_[column * columns_.names.size() + row];
    if (row < column || other.word != cell.word)
      set_entry(facts(), "p2p_status", source + "-" + target, cell.word);
    core::CaptureSign one;
    one.kind = core::SignKind::peer_status;
    one.source = source;
    one.target = target;
    one.word = cell.word;
    one.other = asked_;
    one.lines.push_back(lines_[cell.line]);
    sign(std::move(one));
  }

  TopoColumns columns_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> rows_;  ///< cells seen of each row
  std::optional<std::size_t> row_;
  std::vector<std::string> legend_;
  core::TextLine header_;
  std::string flags_;
  std::string asked_;
  std::vector<core::TextLine> lines_;
  bool affinity_ = false;
  bool coherent_ = false;
};

}  // namespace

std::unique_ptr<Parser> topo_matrix_parser(Sink& sink) {
  return std::make_unique<TopoMatrixParser>(sink);
}

}  // namespace nobounce::captures
