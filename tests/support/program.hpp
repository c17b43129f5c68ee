// Runs the program under test as its users do: arguments in; exit code, output and errors out.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/json.hpp"

namespace nobounce::test {

inline std::string program_path() {
  const char* given = std::getenv("NOBOUNCE_BIN");
  return given != nullptr && *given != '\0' ? given : NOBOUNCE_DEFAULT_BIN;
}

struct Ran {
  int exit_code = -1;  ///< 128 + N where a signal ended it
  std::string out;
  std::string err;
};

/// A running program. Killed if it outlives its limit or the test.
class Running {
 public:
  explicit Running(std::vector<std::string> words, const std::string& output_path = "")
      : words_(std::move(words)),
        out_(output_path.empty() ? ::memfd_create("out", MFD_CLOEXEC)
                                 : ::open(output_path.c_str(), O_WRONLY | O_CLOEXEC)),
        err_(::memfd_create("err", MFD_CLOEXEC)),
        readable_(output_path.empty()) {
    if (out_ < 0 || err_ < 0) throw std::runtime_error("no file for the output");
    pid_ = ::fork();
    if (pid_ == 0) execute();
    if (pid_ < 0) throw std::runtime_error("fork failed");
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(out_);
    ::close(err_);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void send(int signal_number) const { ::kill(pid_, signal_number); }

  [[nodiscard]] bool ended() {
    if (pid_ <= 0) return true;
    if (::waitpid(pid_, &status_, WNOHANG) != pid_) return false;
    pid_ = 0;
    return true;
  }

  /// What it has printed so far.
  [[nodiscard]] std::string so_far() const { return readable_ ? content(out_) : ""; }

  /// Waits for its end, at most that long.
  [[nodiscard]] Ran finish(std::chrono::seconds limit = std::chrono::seconds(100)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!ended()) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "still running after " << limit.count() << " s: " << words_.back();
        return {};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const int exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    return {exit_code, readable_ ? content(out_) : "", content(err_)};
  }

 private:
  [[noreturn]] void execute() {
    std::vector<char*> pointers;
    for (std::string& word : words_) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(out_, 1);
    ::dup2(err_, 2);
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }

  static std::string content(int descriptor) {
    std::string text(static_cast<std::size_t>(::lseek(descriptor, 0, SEEK_END)), '\0');
    const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }

  std::vector<std::string> words_;
  int out_;
  int err_;
  bool readable_;
  pid_t pid_ = -1;
  int status_ = 0;
};

/// `nobounce` with these arguments.
inline Ran run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program_path());
  return Running(std::move(arguments)).finish();
}

/// The same on the software machine `workstation`.
inline Ran run_soft(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--machine", "soft:workstation"});
  return run(std::move(arguments));
}

/// Standard output as one JSON document.
inline core::Json document_of(const Ran& ran) {
  Result<core::Json> json = core::parse_json(ran.out, "stdout");
  if (!json.ok()) {
    ADD_FAILURE() << to_string(json.error()) << "\nout: " << ran.out << "\nerr: " << ran.err;
    return {};
  }
  return std::move(json).value();
}

inline std::string text_at(const core::Json& json, std::string_view pointer) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  return found == nullptr || found->as_text() == nullptr ? "(no text)" : *found->as_text();
}

inline std::uint64_t number_at(const core::Json& json, std::string_view pointer) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  if (found != nullptr && found->as_unsigned() != nullptr) return *found->as_unsigned();
  ADD_FAILURE() << "no number at " << pointer << " in " << core::dump_json(json);
  return 0;
}

inline bool flag_at(const core::Json& json, std::string_view pointer) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  return found != nullptr && found->as_bool() != nullptr && *found->as_bool();
}

inline bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline std::size_t line_count(const std::string& text) {
  std::size_t lines = 0;
  for (const char character : text) lines += character == '\n' ? 1 : 0;
  return lines;
}

/// Whether the program was built with optimisation: without, large transfers take too long.
inline bool program_is_optimised() {
  return flag_at(document_of(run({"--version", "--json"})), "/optimised");
}

/// Whether this machine has a GPU that the program sees.
inline bool live_gpu() {
  const core::Json machine = document_of(run({"topo", "--json"}));
  const core::Json* gpus = machine.find("gpus");
  return gpus != nullptr && gpus->as_array() != nullptr && !gpus->as_array()->empty();
}

}  // namespace nobounce::test
