// Tests, or with --scenario=NAME the scenario that one of them runs as a process of its own.
#include <gtest/gtest.h>

#include <string>

#include "device/device_rig.hpp"

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  const std::string option = "--scenario=";
  if (first.compare(0, option.size(), option) == 0) {
    for (const auto& scenario : nobounce::device::scenarios()) {
      if (first.substr(option.size()) == scenario.name) {
        return scenario.run({argv + 2, argv + argc});
      }
    }
    return nobounce::device::failed("no such scenario: " + first);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
