// NCCL's levels over its versions, as its sources have them at the tags named.
#include "judge/nccl_level.hpp"

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

bool nccl_knows_dmabuf(std::uint32_t version) {
  return version == nccl_unknown_version || version >= 21304;
}

}  // namespace nobounce::judge
