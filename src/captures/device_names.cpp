// Names of GPUs and adapters.
#include "captures/device_names.hpp"

#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t length = 0;
  while (at + length < text.size() && is_digit(text[at + length])) ++length;
  return length;
}

}  // namespace

std::size_t gpu_name_length(std::string_view text) {
  if (!starts(text, "GPU")) return 0;
  const std::size_t digits = digits_at(text, 3);
  return digits > 0 && digits < 4 ? 3 + digits : 0;
}

bool is_gpu_name(std::string_view name) {
  return gpu_name_length(name) == name.size() && !name.empty();
}

std::size_t device_name_length(std::string_view text) {
  if (const std::size_t length = gpu_name_length(text); length > 0) return length;
  // Longer beginnings first.
  for (const std::string_view begin :
       {"NIC", "mlx5_bond_", "mlx5_", "mlx4_", "bnxt_re", "hfi1_", "qedr", "erdma_", "efa_",
        "ionic_", "irdma", "cxgb4_", "hns_", "siw"}) {
    if (!starts(text, begin)) continue;
    const std::size_t digits = digits_at(text, begin.size());
    if (digits > 0 && digits < 4) return begin.size() + digits;
  }
  // rocep129s0f0, rdmap16s27, ibp3s0: names by place, which end at a blank.
  for (const std::string_view begin : {"rocep", "rdmap", "ibp", "roceo", "ibs", "roces", "mlx5_"}) {
    if (!starts(text, begin)) continue;
    std::size_t length = begin.size();
    while (length < text.size() && (is_name(text[length]) || text[length] == '-')) ++length;
    if (length > begin.size()) return length;
  }
  return 0;
}

}  // namespace nobounce::captures
