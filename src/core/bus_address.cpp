// Lower case, a domain of four digits where it fits.
#include "core/bus_address.hpp"

namespace nobounce::core {

std::string canonical_bdf(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  std::string bdf(text.substr(first, text.find_last_not_of(blanks) - first + 1));
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
