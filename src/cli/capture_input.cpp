// Reads captured text in chunks.
#include "cli/capture_input.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "captures/content.hpp"
#include "cli/cause_hint.hpp"
#include "report/quantity.hpp"

namespace nobounce::cli {

namespace {

constexpr std::size_t chunk_bytes = 256u << 10;
constexpr std::uint64_t progress_bytes = 32u << 20;
constexpr unsigned look_interval_ms = 200;

/// As a shell takes it.
std::string shell_word(const std::string& path) {
  if (path == "-") return "FILE";
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '_' || c == '-' || c == '+';
  });
  if (plain && path.front() != '-') return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

Error with_capture_remedy(Error error, const std::string& path, CaptureUse use) {
  const bool topology = use == CaptureUse::topology;
  error.attempted = "read " + path;
  if (error.code == EISDIR) {
    error.remedy = topology ? "--from takes one file; nobounce explain " + path + "/* reads several"
                            : "name its files: nobounce explain " + path + "/*";
  } else if (error.code == ESPIPE) {
    error.remedy =
        std::string("of a pipe: COMMAND | nobounce ") + (topology ? "topo --from -" : "explain -");
  } else if (error.code == EACCES || error.code == EPERM) {
    return error;
  } else if (topology) {
    error.remedy =
        "name a file with nvidia-smi topo -m, an NCCL topology (XML), lspci -tv or a recording; - "
        "is standard input";
  } else {
    error.remedy = cause_hint(path);
    if (error.remedy.empty()) {
      error.remedy =
          "name a file with captured text, - for standard input, or a cause of nobounce explain "
          "--list";
    }
  }
  return error;
}

}  // namespace

CaptureInput::CaptureInput(Console& console, system::Host& host, CaptureUse use,
                           std::uint64_t limit_bytes)
    : console_(console),
      host_(host),
      use_(use),
      command_(use == CaptureUse::topology ? "nobounce topo --from" : "nobounce explain"),
      limit_bytes_(limit_bytes) {}

std::optional<Problem> CaptureInput::read(const std::string& path, captures::TextReader& reader) {
  path_ = path;
  front_.clear();
  looked_ = false;
  shown_bytes_ = 0;
  reader.begin(path);
  progress_.emplace(console_, "reading " + path + " ", 0);
  std::optional<Problem> problem =
      path == "-" ? read_standard_input(reader) : read_file(path, reader);
  if (!problem.has_value()) problem = end(reader);
  interrupts_.reset();
  progress_.reset();
  return problem;
}

std::optional<Problem> CaptureInput::read_standard_input(captures::TextReader& reader) {
  interrupts_.emplace();
  std::vector<char> buffer(chunk_bytes);
  while (true) {
    const Result<std::optional<std::size_t>> got = system::read_standard_input(
        reinterpret_cast<std::byte*>(buffer.data()), buffer.size(), look_interval_ms);
    if (!got.ok()) {
      Error error = got.error();
      error.remedy = "nvidia-smi topo -m | " + command_ + " -";
      return Problem{std::move(error)};
    }
    if (got->has_value() && **got == 0) return std::nullopt;
    if (auto problem = take({buffer.data(), got->value_or(0)}, reader)) return problem;
  }
}

std::optional<Problem> CaptureInput::read_file(const std::string& path,
                                               captures::TextReader& reader) {
  system::Storage& storage = host_.storage();
  const Result<system::FileHandle> file = storage.open(path, {});
  if (!file.ok()) return Problem{with_capture_remedy(file.error(), path, use_)};
  interrupts_.emplace();
  std::vector<char> buffer(chunk_bytes);
  std::uint64_t offset = 0;
  std::optional<Problem> problem;
  while (!problem.has_value()) {
    const Result<std::size_t> got = storage.read(*file, reinterpret_cast<std::byte*>(buffer.data()),
                                                 buffer.size(), FileOffset{offset});
    if (!got.ok()) {
      problem = Problem{with_capture_remedy(got.error(), path, use_)};
      break;
    }
    if (*got == 0) break;
    problem = take({buffer.data(), *got}, reader);
    offset += *got;
  }
  (void)storage.close(*file);
  return problem;
}

std::optional<Problem> CaptureInput::take(std::string_view bytes, captures::TextReader& reader) {
  if (auto problem = interrupted()) return problem;
  read_bytes_ += bytes.size();
  shown_bytes_ += bytes.size();
  if (read_bytes_ > limit_bytes_) return too_long();
  if (looked_) {
    reader.feed(bytes);
  } else {
    front_ += bytes;
    if (front_.size() >= captures::content_bytes) {
      if (auto problem = look(reader)) return problem;
    }
  }
  if (shown_bytes_ >= progress_bytes) {
    progress_->show_phase(report::short_bytes(read_bytes_));
    shown_bytes_ = 0;
  }
  return std::nullopt;
}

std::optional<Problem> CaptureInput::end(captures::TextReader& reader) {
  if (!looked_) {
    if (auto problem = look(reader)) return problem;
  }
  reader.end();
  return interrupted();
}

std::optional<Problem> CaptureInput::look(captures::TextReader& reader) {
  const captures::Content content = captures::content_of(front_);
  const std::string file = shell_word(path_);
  const std::string made = content.reader.empty()
                               ? std::string()
                               : std::string(content.reader) + ' ' + file + " | " + command_ + " -";
  const std::string name(content.name);
  switch (content.kind) {
    case captures::ContentKind::text:
      break;
    case captures::ContentKind::empty:
      return refused("it is empty",
                     "many tools write to standard error: COMMAND 2>&1 | " + command_ + " -");
    case captures::ContentKind::compressed:
      return refused("it is compressed (" + name + ")", made);
    case captures::ContentKind::archive:
      return refused("it is an archive (" + name + ")", made);
    case captures::ContentKind::wide:
      return refused("it is written in " + name + " without saying so", made);
    case captures::ContentKind::binary:
      return refused(name.empty() ? "it is no text" : "it is no text (" + name + ")",
                     "name what a tool printed; of a text among other bytes: strings " + file +
                         " | " + command_ + " -");
  }
  looked_ = true;
  reader.feed(front_);
  front_.clear();
  return std::nullopt;
}

std::optional<Problem> CaptureInput::interrupted() const {
  const int number = interrupts_.has_value() ? interrupts_->signal() : 0;
  if (number == 0) return std::nullopt;
  Problem problem = refused("interrupted by signal " + std::to_string(number) + " after " +
                                report::short_bytes(read_bytes_) + "; nothing of it is judged",
                            "of a text that goes on: timeout 60 COMMAND | " + command_ + " -");
  problem.error.origin = ErrorOrigin::session;
  problem.error.cause = Cause::session_cancelled;
  problem.exit_code = exit_signal_base + number;
  return problem;
}

std::optional<Problem> CaptureInput::too_long() const {
  return refused("there is more than " + report::short_bytes(limit_bytes_) +
                     " of text; nothing of it is judged",
                 "what matters of it: grep -aiE 'nccl|gpu|nvidia|mlx' " + shell_word(path_) +
                     " | " + command_ + " -; explain also takes --limit SIZE");
}

Problem CaptureInput::refused(std::string detail, std::string remedy) const {
  return Problem{Error{.origin = ErrorOrigin::input,
                       .attempted = path_ == "-" ? "read standard input" : "read " + path_,
                       .detail = std::move(detail),
                       .remedy = std::move(remedy)}};
}

}  // namespace nobounce::cli
