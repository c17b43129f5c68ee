// What may stand for an option's value, for the completion of every shell.
#include <string>
#include <vector>

#include <nobounce/software_machine.hpp>
#include <nobounce/words.hpp>
#include "cli/command_line.hpp"

namespace nobounce::cli {

ValueCompletion completion_of(const std::string& value) {
  if (value == "POLICY") {
    std::vector<std::string> words;
    for (const Policy policy :
         {Policy::direct_required, Policy::direct_preferred, Policy::staged_only}) {
      words.emplace_back(to_string(policy));
    }
    return {.words = std::move(words)};
  }
  if (value == "MACHINE") {
    std::vector<std::string> words = {"live"};
    for (const std::string& name : software_machine_names()) words.push_back("soft:" + name);
    return {.words = std::move(words)};
  }
  if (value == "PLACE") return {.words = {"gpu:0", "gpu:1", "host"}, .files = true};
  if (value == "ACCESS") return {.words = {"read", "write"}};
  if (value == "HOST:PORT") return {.words = {"127.0.0.1:0", "[::1]:0"}};
  if (value == "MEMBER") return {.words = {"p2p", "rdma", "storage", "async"}};
  if (value == "RECORDING") return {.words = {"live"}, .files = true};
  if (value == "GPU") return {.words = {"0", "1"}};
  if (value == "PATH" || value == "FILE") return {.words = {}, .files = true};
  if (value == "DIR") return {.words = {}, .directories = true};
  if (value == "SIZE") return {.words = {"64KiB", "4MiB", "256MiB", "1GiB"}};
  // Nothing to offer, and file names would mislead.
  for (const char* free :
       {"FIELD", "N", "SECONDS", "SIZES", "A,B", "PID", "NAME", "NIC", "TOKEN"}) {
    if (value == free) return {};
  }
  return {.words = {}, .known = false};
}

}  // namespace nobounce::cli
