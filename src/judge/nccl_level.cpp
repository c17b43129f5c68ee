// NCCL's levels over its versions, as its sources have them at the tags named.
#include "judge/nccl_level.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace nobounce::judge {

namespace {

/// What a level must be so that this distance is below it: up to 2.5 the limit itself is left out
/// (src/transport/net.cc of v2.5.7-1, src/include/topo.h of v2.4.8-1). Later versions still take
/// these numbers (ncclGetLevel in src/graph/paths.cc).
char level_number(std::string_view distance) {
  if (distance == "PIX") return '1';
  if (distance == "PXB") return '2';
  if (distance == "PHB") return '3';
  return distance == "NODE" ? '4' : '5';
}

/// Its words have no NODE: two host bridges of one NUMA node are PHB to it.
std::string_view level_word(std::string_view distance) {
  if (distance == "PIX" || distance == "PXB" || distance == "PHB") return distance;
  return distance == "NODE" ? "PHB" : "SYS";
}

}  // namespace

std::string nccl_level_setting(NcclReach reach, std::string_view distance, std::uint32_t version) {
  // Called NCCL_IB_GDR_LEVEL before 2.4 (src/transport/net_ib.cu of v2.3.7-1).
  const bool early = version != nccl_unknown_version && version < 20400;
  const std::string name = reach == NcclReach::peers ? "NCCL_P2P_LEVEL"
                           : early                   ? "NCCL_IB_GDR_LEVEL"
                                                     : "NCCL_NET_GDR_LEVEL";
  const char number = level_number(distance);
  const std::string word(level_word(distance));
  if (version == nccl_unknown_version) {
    return name + "=" + word + " (NCCL 2.6 and later) or =" + number +
           (reach == NcclReach::peers ? " (before; it reads" : " (2.4 and 2.5; they read") +
           " a word as 0, which switches it off)";
  }
  // Words since v2.6.4-1.
  if (version >= 20600) return name + "=" + word;
  return name + "=" + number +
         " (this version takes a number, and reads a word as 0, which switches it off)";
}

std::optional<bool> nccl_level_admits(std::string_view value, std::string_view distance,
                                      std::uint32_t version) {
  constexpr int sys = 4;
  const int wanted = distance == "PXB"    ? 1
                     : distance == "PHB"  ? 2
                     : distance == "NODE" ? 3
                     : distance == "SYS"  ? sys
                                          : 0;
  int number = -1;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = read.ec == std::errc() && number >= 0;
  if (version != nccl_unknown_version && version < 20600) return wanted < (is_number ? number : 0);
  if (is_number) {
    constexpr std::array<int, 6> limits = {-1, 0, 1, 3, sys, sys};
    return wanted <= limits.at(static_cast<std::size_t>(std::min(number, 5)));
  }
  if (value == "LOC" || value == "NVL" || value == "NVB" || value == "C2C") return false;
  if (value == "PIX") return wanted <= 0;
  if (value == "PXB" || value == "P2C" || value == "PXN") return wanted <= 1;
  if (value == "PHB") return wanted <= 3;
  if (value == "SYS") return true;
  return std::nullopt;
}

bool nccl_knows_dmabuf(std::uint32_t version) {
  return version == nccl_unknown_version || version >= 21304;
}

}  // namespace nobounce::judge
