// Names of GPUs and adapters as tools print them, also where blanks between them got lost.
#pragma once

#include <string_view>

namespace nobounce::captures {

/// Length of a device's name at the front: GPU0, NIC11, mlx5_0, mlx5_bond_0, bnxt_re1, ...; 0 where
/// there is none.
[[nodiscard]] std::size_t device_name_length(std::string_view text);
/// Length of `GPU` with a number at the front.
[[nodiscard]] std::size_t gpu_name_length(std::string_view text);
[[nodiscard]] bool is_gpu_name(std::string_view name);

}  // namespace nobounce::captures
