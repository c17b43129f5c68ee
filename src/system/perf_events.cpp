// Reading the kernel's descriptions of perf events: terms, bit fields, CPU lists.
#include "system/perf_events.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

namespace nobounce::system {
namespace {

constexpr const char* devices_folder = "/sys/bus/event_source/devices";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

/// Cuts off and returns what stands before the next separator.
std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view part = trimmed(rest.substr(0, at));
  rest = at == rest.npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

std::optional<std::uint64_t> number(std::string_view text) {
  const bool hexadecimal = text.substr(0, 2) == "0x";
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct NumberRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

/// `3` or `0-7`.
std::optional<NumberRange> number_range(std::string_view text) {
  const std::string_view first_text = next_part(text, '-');
  const auto first = number(first_text);
  const auto last = text.empty() ? first : number(trimmed(text));
  if (!first || !last || *last < *first) return std::nullopt;
  return NumberRange{*first, *last};
}

/// Which config word a text such as `config1:0-7,32-35` begins with; -1 if none.
int config_word(std::string_view name) {
  if (name == "config") return 0;
  if (name == "config1") return 1;
  return name == "config2" ? 2 : -1;
}

/// Spreads the value's bits over the field that the format describes.
bool place_bits(PerfEventSpec& spec, std::string_view format, std::uint64_t value) {
  const int word = config_word(next_part(format, ':'));
  if (word < 0 || format.empty()) return false;
  while (!format.empty()) {
    const auto bits = number_range(next_part(format, ','));
    if (!bits || bits->last > 63) return false;
    const std::uint64_t width = bits->last - bits->first + 1;
    const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    spec.config[word] |= (value & mask) << bits->first;
    value = width == 64 ? 0 : value >> width;
  }
  return value == 0;
}

bool place_term(Files& files, PerfEventSpec& spec, std::string_view term) {
  const std::string_view name = next_part(term, '=');
  const auto value = term.empty() ? std::optional<std::uint64_t>(1) : number(term);
  if (!value) return false;
  if (const int word = config_word(name); word >= 0) {
    spec.config[word] |= *value;
    return true;
  }
  const auto format =
      files.read(std::string(devices_folder) + "/" + spec.pmu + "/format/" + std::string(name));
  return format && place_bits(spec, trimmed(*format), *value);
}

std::vector<int> cpu_list(std::string_view text) {
  std::vector<int> cpus;
  text = trimmed(text);
  while (!text.empty()) {
    const auto range = number_range(next_part(text, ','));
    if (!range || range->last > 1'000'000) return {};
    for (std::uint64_t cpu = range->first; cpu <= range->last; ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

Error perf_error(int code, std::string_view pmu, std::string_view event) {
  return os_error(code, "read the perf event " + std::string(pmu) + "/" + std::string(event));
}

}  // namespace

Result<std::vector<std::string>> perf_pmus(Files& files, std::string_view pmu) {
  if (pmu.empty() || pmu.find('/') != pmu.npos) {
    return os_error(EINVAL, "find the PMU `" + std::string(pmu) + "`");
  }
  const auto names = files.list(devices_folder);
  if (!names) return names.error();
  const bool all = pmu.back() == '*';
  const std::string_view wanted = all ? pmu.substr(0, pmu.size() - 1) : pmu;
  std::vector<std::string> found;
  for (const std::string& name : *names) {
    const std::string_view head = std::string_view(name).substr(0, wanted.size());
    if (all ? head == wanted : name == wanted) found.push_back(name);
  }
  if (found.empty()) return os_error(ENOENT, "find the PMU `" + std::string(pmu) + "`");
  return found;
}

Result<PerfEventSpec> perf_event_spec(Files& files, const std::string& pmu,
                                      std::string_view event) {
  const std::string folder = std::string(devices_folder) + "/" + pmu;
  PerfEventSpec spec;
  spec.pmu = pmu;
  const auto type = files.read(folder + "/type");
  if (!type) return type.error();
  const auto type_number = number(trimmed(*type));
  if (!type_number || event.empty() || event.find('/') != event.npos) {
    return perf_error(EINVAL, pmu, event);
  }
  spec.type = static_cast<std::uint32_t>(*type_number);
  const std::string event_file = folder + "/events/" + std::string(event);
  auto terms = files.read(event_file);
  if (!terms) {
    if (event.find('=') == event.npos) return terms.error();
    terms = std::string(event);
  }
  std::string_view rest = trimmed(*terms);
  while (!rest.empty()) {
    if (!place_term(files, spec, next_part(rest, ','))) return perf_error(EINVAL, pmu, event);
  }
  if (const auto scale = files.read(event_file + ".scale"); scale) {
    spec.scale = std::strtod(scale->c_str(), nullptr);
  }
  if (const auto cpus = files.read(folder + "/cpumask"); cpus) spec.cpus = cpu_list(*cpus);
  return spec;
}

}  // namespace nobounce::system
