// What a version of NCCL wants to be told so that it uses pairs of a distance: a number or a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nobounce::judge {

enum class NcclReach : std::uint8_t {
  adapters,  ///< NCCL_NET_GDR_LEVEL
  peers      ///< NCCL_P2P_LEVEL
};

/// Versions are written as NCCL does from 2.9 on: 22005 is 2.20.5. 0: not known.
inline constexpr std::uint32_t nccl_unknown_version = 0;

/// `NCCL_NET_GDR_LEVEL=SYS`, and where another form would do harm, why not that. The distance is
/// one of nvidia-smi's: PIX, PXB, PHB, NODE, SYS; others are taken as the farthest.
[[nodiscard]] std::string nccl_level_setting(NcclReach reach, std::string_view distance,
                                             std::uint32_t version);

/// Whether a value of such a variable admits pairs at this distance of nvidia-smi's; an empty
/// distance asks whether it admits any over PCIe. Nothing where the version ignores the value.
[[nodiscard]] std::optional<bool> nccl_level_admits(std::string_view value,
                                                    std::string_view distance,
                                                    std::uint32_t version);

/// dma-buf is a way for this version; for one that is not known it may be.
[[nodiscard]] bool nccl_knows_dmabuf(std::uint32_t version);

}  // namespace nobounce::judge
