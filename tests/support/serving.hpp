// A running `nobounce serve` on a software machine, and its events.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/program.hpp"

namespace nobounce::test {

class Serving {
 public:
  enum class Format : std::uint8_t { json, text };

  explicit Serving(std::vector<std::string> arguments, Format format = Format::json)
      : running_(words(std::move(arguments), format)) {
    const std::string before = format == Format::json ? "\"address\":\"" : "listening at ";
    for (int i = 0; i < 20000 && address_.empty(); ++i) {
      const std::string text = running_.so_far();
      const std::size_t at = text.find(before);
      const std::size_t end = at == std::string::npos
                                  ? std::string::npos
                                  : text.find_first_of("\"\n", at + before.size());
      if (end != std::string::npos) {
        address_ = text.substr(at + before.size(), end - at - before.size());
      } else if (running_.ended()) {
        break;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    if (address_.empty())
      throw std::runtime_error("the server does not listen: " + running_.so_far());
  }

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::string place(const std::string& name) const {
    return "rdma://" + address_ + "/" + name;
  }
  void kill() const { running_.send(SIGKILL); }
  /// Waits until it has told that many events of a kind, in JSON; false if it does not come to it.
  [[nodiscard]] bool tells(const std::string& kind, int times) {
    const std::string word = "\"event\":\"" + kind + "\"";
    for (int i = 0; i < 15000 && !running_.ended(); ++i) {
      const std::string text = running_.so_far();
      int seen = 0;
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++seen;
      if (seen >= times) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  /// Ends it by a signal.
  [[nodiscard]] Ran finish(int signal_number) {
    running_.send(signal_number);
    return running_.finish();
  }
  /// Ends it by SIGTERM, which it must take well; what it said.
  [[nodiscard]] std::vector<core::Json> end() {
    const Ran ran = finish(SIGTERM);
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    return events_in(ran.out);
  }
  /// Waits until it ends by itself, with that code.
  [[nodiscard]] std::vector<core::Json> wait_for_end(int exit_code) {
    const Ran ran = running_.finish();
    EXPECT_EQ(ran.exit_code, exit_code) << ran.out << ran.err;
    return events_in(ran.out);
  }

 private:
  static std::vector<std::string> words(std::vector<std::string> arguments, Format format) {
    arguments.insert(arguments.begin(), {program_path(), "serve"});
    arguments.insert(arguments.end(), {"--machine", "soft:workstation"});
    if (format == Format::json) arguments.emplace_back("--json");
    return arguments;
  }
  static std::vector<core::Json> events_in(const std::string& text) {
    std::vector<core::Json> events;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      Result<core::Json> json = core::parse_json(line, "an event");
      if (!json.ok()) {
        ADD_FAILURE() << to_string(json.error()) << ": " << line;
        continue;
      }
      events.push_back(std::move(*json));
    }
    return events;
  }

  Running running_;
  std::string address_;
};

}  // namespace nobounce::test
