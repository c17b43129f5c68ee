// Lower case, a domain of four digits where it fits.
#include "core/bus_address.hpp"

#include "core/trimmed.hpp"

namespace nobounce::core {

std::string canonical_bdf(std::string_view text) {
  std::string bdf(trimmed(text));
  for (char& c : bdf) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  std::size_t domain = bdf.find(':');
  while (domain != std::string::npos && domain > 4 && bdf.front() == '0') {
    bdf.erase(0, 1);
    --domain;
  }
  return bdf;
}

}  // namespace nobounce::core
