// What NVML said of each GPU, of pairs and of NVLinks.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "recording/recorded_tables.hpp"
#include "recording/recording.hpp"

namespace nobounce::recording {
namespace {

namespace nvml = system::nvml;
using core::Json;
using core::JsonArray;
using core::JsonObject;

// As many as are asked about when a machine is read.
constexpr unsigned links_on_a_gpu = 18;
constexpr unsigned links_asked_max = 1024;

/// A value, or the code that came instead of it.
Json nvml_answer(nvml::nvmlReturn_t code, Json value) {
  if (code == nvml::success) return value;
  return JsonObject{{"code", Json(code)}};
}

std::string text_of(const char* text, std::size_t length_max) {
  return std::string(text, strnlen(text, length_max));
}

class Asker {
 public:
  explicit Asker(system::Nvml& table) : table_(table) {}

  Json ask() {
    unsigned count = 0;
    if (const auto code = table_.device_get_count(&count); code != nvml::success) {
      return JsonObject{{"count", nvml_answer(code, nullptr)}};
    }
    std::vector<nvml::nvmlDevice_t> devices;
    for (unsigned i = 0; i < count; ++i) {
      nvml::nvmlDevice_t device = nullptr;
      if (table_.device_get_handle_by_index(i, &device) != nvml::success) device = nullptr;
      devices.push_back(device);
    }
    std::array<char, 96> version{};
    nvml::nvmlConfComputeSystemState_t state{};
    const auto confidential = table_.system_get_conf_compute_state(&state);
    const auto driver = table_.system_get_driver_version(version.data(), version.size() - 1);
    JsonArray gpus;
    for (const nvml::nvmlDevice_t device : devices) gpus.push_back(gpu(device, devices));
    return JsonObject{{"driver", nvml_answer(driver, text_of(version.data(), version.size()))},
                      {"confidential", nvml_answer(confidential, Json(state.ccFeature))},
                      {"gpus", Json(std::move(gpus))}};
  }

 private:
  Json gpu(nvml::nvmlDevice_t device, const std::vector<nvml::nvmlDevice_t>& all) {
    if (device == nullptr) return JsonObject{};
    nvml::nvmlPciInfo_t pci{};
    nvml::nvmlMemory_t memory{};
    nvml::nvmlBAR1Memory_t bar1{};
    std::array<char, 128> name{};
    std::array<char, 128> uuid{};
    unsigned mig = 0;
    unsigned pending = 0;
    int virtualization = 0;
    const auto pci_code = table_.device_get_pci_info(device, &pci);
    const auto name_code = table_.device_get_name(device, name.data(), name.size() - 1);
    const auto uuid_code = table_.device_get_uuid(device, uuid.data(), uuid.size() - 1);
    const auto memory_code = table_.device_get_memory_info(device, &memory);
    const auto bar1_code = table_.device_get_bar1_memory_info(device, &bar1);
    const auto mig_code = table_.device_get_mig_mode(device, &mig, &pending);
    const auto mode_code = table_.device_get_virtualization_mode(device, &virtualization);
    JsonArray read;
    JsonArray write;
    for (const nvml::nvmlDevice_t other : all) {
      read.push_back(status(device, other, nvml::p2p_caps_read));
      write.push_back(status(device, other, nvml::p2p_caps_write));
    }
    return JsonObject{
        {"bdf", nvml_answer(pci_code, text_of(pci.busId, sizeof pci.busId))},
        {"name", nvml_answer(name_code, text_of(name.data(), name.size()))},
        {"uuid", nvml_answer(uuid_code, text_of(uuid.data(), uuid.size()))},
        {"memory_bytes", nvml_answer(memory_code, Json(std::uint64_t{memory.total}))},
        {"bar1_bytes", nvml_answer(bar1_code, Json(std::uint64_t{bar1.bar1Total}))},
        {"bar1_free_bytes", nvml_answer(bar1_code, Json(std::uint64_t{bar1.bar1Free}))},
        {"mig", nvml_answer(mig_code, Json(mig))},
        {"virtualization", nvml_answer(mode_code, Json(virtualization))},
        {"peer_read", Json(std::move(read))},
        {"peer_write", Json(std::move(write))},
        {"nvlinks", links(device)},
    };
  }

  Json status(nvml::nvmlDevice_t device, nvml::nvmlDevice_t other, int capability) {
    if (device == other || other == nullptr) return nullptr;
    int value = nvml::p2p_status_unknown;
    const auto code = table_.device_get_p2p_status(device, other, capability, &value);
    return nvml_answer(code, Json(value));
  }

  /// By number: the address at the far end, or `inactive`.
  Json links(nvml::nvmlDevice_t device) {
    JsonArray list;
    for (unsigned link = 0; link < links_asked_max; ++link) {
      unsigned active = 0;
      nvml::nvmlPciInfo_t remote{};
      const auto state = table_.device_get_nvlink_state(device, link, &active);
      if (state != nvml::success && link >= links_on_a_gpu) break;
      if (state != nvml::success) {
        list.push_back(nvml_answer(state, nullptr));
      } else if (active == 0) {
        list.emplace_back("inactive");
      } else {
        const auto code = table_.device_get_nvlink_remote_pci_info(device, link, &remote);
        list.push_back(code == nvml::success ? Json(text_of(remote.busId, sizeof remote.busId))
                                             : Json("unknown"));
      }
    }
    // A GPU without any: nothing need be said of each.
    const bool none = std::all_of(list.begin(), list.end(),
                                  [](const Json& link) { return link.as_text() == nullptr; });
    if (none) list.clear();
    return Json(std::move(list));
  }

  system::Nvml& table_;
};

class RecordedNvml final : public system::Nvml {
 public:
  explicit RecordedNvml(const Json& answers) : answers_(answers) {
    if (const Json* gpus = answers.find("gpus")) {
      if (const JsonArray* list = gpus->as_array()) gpus_ = *list;
    }
  }

  nvmlReturn_t init() override { return nvml::success; }
  nvmlReturn_t shutdown() override { return nvml::success; }
  nvmlReturn_t system_get_driver_version(char* text, unsigned length) override {
    return text_answer(answers_.find("driver"), text, length);
  }
  nvmlReturn_t system_get_conf_compute_state(nvmlConfComputeSystemState_t* state) override {
    std::uint64_t value = 0;
    const nvmlReturn_t code = number_answer(answers_.find("confidential"), value);
    *state = {0, static_cast<unsigned>(value), 0};
    return code;
  }
  nvmlReturn_t device_get_count(unsigned* count) override {
    if (const Json* refused = answers_.find("count")) return code_of(refused);
    *count = static_cast<unsigned>(gpus_.size());
    return nvml::success;
  }
  nvmlReturn_t device_get_handle_by_index(unsigned index, nvmlDevice_t* device) override {
    if (index >= gpus_.size()) return nvml::error_invalid_argument;
    *device = &gpus_[index];
    return nvml::success;
  }
  nvmlReturn_t device_get_name(nvmlDevice_t device, char* text, unsigned length) override {
    return text_answer(field(device, "name"), text, length);
  }
  nvmlReturn_t device_get_uuid(nvmlDevice_t device, char* text, unsigned length) override {
    return text_answer(field(device, "uuid"), text, length);
  }
  nvmlReturn_t device_get_pci_info(nvmlDevice_t device, nvmlPciInfo_t* info) override {
    *info = {};
    return text_answer(field(device, "bdf"), info->busId, sizeof info->busId);
  }
  nvmlReturn_t device_get_memory_info(nvmlDevice_t device, nvmlMemory_t* info) override {
    std::uint64_t total = 0;
    const nvmlReturn_t code = number_answer(field(device, "memory_bytes"), total);
    *info = {total, total, 0};
    return code;
  }
  nvmlReturn_t device_get_bar1_memory_info(nvmlDevice_t device, nvmlBAR1Memory_t* info) override {
    std::uint64_t total = 0;
    std::uint64_t unused = 0;
    const nvmlReturn_t code = number_answer(field(device, "bar1_bytes"), total);
    (void)number_answer(field(device, "bar1_free_bytes"), unused);
    *info = {total, unused, total - std::min(total, unused)};
    return code;
  }
  nvmlReturn_t device_get_p2p_status(nvmlDevice_t first, nvmlDevice_t second, int capability,
                                     int* status) override {
    const char* key = capability == nvml::p2p_caps_write ? "peer_write" : "peer_read";
    const Json* list = field(first, key);
    const JsonArray* items = list == nullptr ? nullptr : list->as_array();
    const std::size_t at = index_of(second);
    if (items == nullptr || at >= items->size()) return nvml::error_not_supported;
    std::uint64_t value = nvml::p2p_status_unknown;
    const nvmlReturn_t code = number_answer(&(*items)[at], value);
    *status = static_cast<int>(value);
    return code;
  }
  nvmlReturn_t device_get_nvlink_state(nvmlDevice_t device, unsigned link,
                                       unsigned* is_active) override {
    const Json* state = link_of(device, link);
    if (state == nullptr) return nvml::error_not_supported;
    if (state->as_text() == nullptr) return code_of(state);
    *is_active = *state == Json("inactive") ? 0 : 1;
    return nvml::success;
  }
  nvmlReturn_t device_get_nvlink_remote_pci_info(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t* info) override {
    *info = {};
    return text_answer(link_of(device, link), info->busId, sizeof info->busId);
  }
  nvmlReturn_t device_get_mig_mode(nvmlDevice_t device, unsigned* current,
                                   unsigned* pending) override {
    std::uint64_t value = 0;
    const nvmlReturn_t code = number_answer(field(device, "mig"), value);
    *current = *pending = static_cast<unsigned>(value);
    return code;
  }
  nvmlReturn_t device_get_virtualization_mode(nvmlDevice_t device, int* mode) override {
    std::uint64_t value = 0;
    const nvmlReturn_t code = number_answer(field(device, "virtualization"), value);
    *mode = static_cast<int>(value);
    return code;
  }

 private:
  static nvmlReturn_t code_of(const Json* json) {
    const Json* code = json == nullptr ? nullptr : json->find("code");
    const std::uint64_t* number = code == nullptr ? nullptr : code->as_unsigned();
    return number == nullptr ? nvml::error_not_supported : static_cast<int>(*number & 0xffff);
  }
  static nvmlReturn_t text_answer(const Json* json, char* text, std::size_t length) {
    const std::string* value = json == nullptr ? nullptr : json->as_text();
    if (value == nullptr) return code_of(json);
    std::snprintf(text, length, "%s", value->c_str());
    return nvml::success;
  }
  static nvmlReturn_t number_answer(const Json* json, std::uint64_t& number) {
    const std::uint64_t* value = json == nullptr ? nullptr : json->as_unsigned();
    if (value == nullptr) return code_of(json);
    number = *value;
    return nvml::success;
  }

  [[nodiscard]] std::size_t index_of(nvmlDevice_t device) const {
    std::size_t index = 0;
    while (index < gpus_.size() && &gpus_[index] != device) ++index;
    return index;
  }
  [[nodiscard]] const Json* field(nvmlDevice_t device, const char* key) const {
    const std::size_t index = index_of(device);
    return index < gpus_.size() ? gpus_[index].find(key) : nullptr;
  }
  [[nodiscard]] const Json* link_of(nvmlDevice_t device, unsigned link) const {
    const Json* list = field(device, "nvlinks");
    const JsonArray* items = list == nullptr ? nullptr : list->as_array();
    return items != nullptr && link < items->size() ? &(*items)[link] : nullptr;
  }

  const Json answers_;
  JsonArray gpus_;
};

}  // namespace

core::Json ask_nvml(system::Host& host) {
  Result<system::Nvml*> table = host.nvml();
  if (!table) return JsonObject{{"error", error_json(table.error())}};
  const auto code = (*table)->init();
  if (code != nvml::success) return JsonObject{{"count", nvml_answer(code, nullptr)}};
  Json answers = Asker(**table).ask();
  (void)(*table)->shutdown();
  return answers;
}

std::unique_ptr<system::Nvml> recorded_nvml(const core::Json& answers) {
  return std::make_unique<RecordedNvml>(answers);
}

}  // namespace nobounce::recording
