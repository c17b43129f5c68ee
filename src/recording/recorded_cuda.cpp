// What the CUDA driver said of each device: address, attributes, who may access whom; and
// libcufile's version.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "recording/recorded_tables.hpp"
#include "recording/recording.hpp"

namespace nobounce::recording {
namespace {

namespace cuda = system::cuda;
using core::Json;
using core::JsonArray;
using core::JsonObject;

/// Attributes that judging a machine needs, by the numbers of cuda.h.
constexpr std::array<int, 9> attributes = {
    cuda::attribute_integrated,
    cuda::attribute_unified_addressing,
    cuda::attribute_can_flush_remote_writes,
    cuda::attribute_host_register_supported,
    cuda::attribute_gpu_direct_rdma_supported,
    cuda::attribute_gpu_direct_rdma_flush_writes_options,
    cuda::attribute_gpu_direct_rdma_writes_ordering,
    cuda::attribute_can_use_64_bit_stream_mem_ops,
    cuda::attribute_dma_buf_supported,
};

Json answer(cuda::CUresult code, Json value) {
  if (code == cuda::success) return value;
  return JsonObject{{"code", Json(static_cast<int>(code))}};
}

std::uint64_t code_of(const Json& json) {
  const Json* code = json.find("code");
  const std::uint64_t* number = code == nullptr ? nullptr : code->as_unsigned();
  return number == nullptr ? cuda::error_not_supported : *number;
}

Json ask_device(system::Cuda& table, cuda::CUdevice device,
                const std::vector<cuda::CUdevice>& all) {
  std::array<char, 32> bdf{};
  const auto bdf_code = table.device_get_pci_bus_id(bdf.data(), bdf.size() - 1, device);
  JsonObject values;
  for (const int attribute : attributes) {
    int value = 0;
    const auto code = table.device_get_attribute(&value, attribute, device);
    values.emplace_back(std::to_string(attribute), answer(code, Json(value)));
  }
  JsonArray access;
  for (const cuda::CUdevice other : all) {
    int can = 0;
    const auto code =
        other == device ? cuda::success : table.device_can_access_peer(&can, device, other);
    access.push_back(other == device ? Json(nullptr) : answer(code, Json(can)));
  }
  return JsonObject{{"bdf", answer(bdf_code, std::string(bdf.data()))},
                    {"attributes", Json(std::move(values))},
                    {"can_access", Json(std::move(access))}};
}

class RecordedCuda final : public system::Cuda {
 public:
  explicit RecordedCuda(const Json& answers) : answers_(answers) {
    if (const Json* devices = answers.find("devices")) {
      if (const JsonArray* list = devices->as_array()) devices_ = *list;
    }
  }

  CUresult init(unsigned) override {
    const Json* refused = answers_.find("init");
    return refused == nullptr ? cuda::success : static_cast<CUresult>(code_of(*refused));
  }
  CUresult device_get_count(int* count) override {
    *count = static_cast<int>(devices_.size());
    return cuda::success;
  }
  CUresult device_get(CUdevice* device, int ordinal) override {
    if (field(ordinal, "bdf") == nullptr) return cuda::error_invalid_value;
    *device = ordinal;
    return cuda::success;
  }
  CUresult device_get_pci_bus_id(char* text, int length, CUdevice device) override {
    const Json* bdf = field(device, "bdf");
    const std::string* value = bdf == nullptr ? nullptr : bdf->as_text();
    if (value == nullptr) return cuda::error_invalid_value;
    std::snprintf(text, static_cast<std::size_t>(length), "%s", value->c_str());
    return cuda::success;
  }
  CUresult device_get_attribute(int* value, int attribute, CUdevice device) override {
    const Json* values = field(device, "attributes");
    return number(values == nullptr ? nullptr : values->find(std::to_string(attribute)), value);
  }
  CUresult device_can_access_peer(int* can_access, CUdevice device, CUdevice peer) override {
    const Json* list = field(device, "can_access");
    const JsonArray* items = list == nullptr ? nullptr : list->as_array();
    const auto at = static_cast<std::size_t>(peer);
    return number(items != nullptr && peer >= 0 && at < items->size() ? &(*items)[at] : nullptr,
                  can_access);
  }

 private:
  static CUresult number(const Json* json, int* value) {
    const std::uint64_t* answered = json == nullptr ? nullptr : json->as_unsigned();
    if (answered == nullptr) {
      return static_cast<CUresult>(json == nullptr ? cuda::error_not_supported : code_of(*json));
    }
    *value = static_cast<int>(*answered & 0x7fffffff);
    return cuda::success;
  }
  [[nodiscard]] const Json* field(int device, const char* key) const {
    const auto at = static_cast<std::size_t>(device);
    return device >= 0 && at < devices_.size() ? devices_[at].find(key) : nullptr;
  }

  const Json answers_;
  JsonArray devices_;
};

class RecordedCufile final : public system::Cufile {
 public:
  explicit RecordedCufile(const Json& answers) : answers_(answers) {}
  CUfileError_t get_version(int* version) override {
    const Json* value = answers_.find("version");
    const std::uint64_t* number = value == nullptr ? nullptr : value->as_unsigned();
    if (number == nullptr) return {static_cast<int>(code_of(answers_)), 0};
    *version = static_cast<int>(*number & 0x7fffffff);
    return {system::cufile::success, 0};
  }

 private:
  const Json answers_;
};

}  // namespace

core::Json ask_cuda(system::Host& host) {
  Result<system::Cuda*> found = host.cuda();
  if (!found) return JsonObject{{"error", error_json(found.error())}};
  system::Cuda& table = **found;
  if (const auto code = table.init(0); code != cuda::success) {
    return JsonObject{{"init", answer(code, nullptr)}};
  }
  int count = 0;
  if (table.device_get_count(&count) != cuda::success) count = 0;
  std::vector<cuda::CUdevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::CUdevice device = 0;
    if (table.device_get(&device, ordinal) == cuda::success) devices.push_back(device);
  }
  JsonArray list;
  for (const cuda::CUdevice device : devices) list.push_back(ask_device(table, device, devices));
  return JsonObject{{"devices", Json(std::move(list))}};
}

core::Json ask_cufile(system::Host& host) {
  Result<system::Cufile*> table = host.cufile();
  if (!table) return JsonObject{{"error", error_json(table.error())}};
  int version = 0;
  const auto code = (*table)->get_version(&version);
  if (code.err == system::cufile::success) return JsonObject{{"version", Json(version)}};
  return JsonObject{{"code", Json(static_cast<int>(code.err))}};
}

core::Json ask_verbs(system::Host& host) {
  const Result<system::Verbs*> table = host.verbs();
  if (!table) return JsonObject{{"error", error_json(table.error())}};
  return JsonObject{{"library", true}};
}

std::unique_ptr<system::Cuda> recorded_cuda(const core::Json& answers) {
  return std::make_unique<RecordedCuda>(answers);
}

std::unique_ptr<system::Cufile> recorded_cufile(const core::Json& answers) {
  return std::make_unique<RecordedCufile>(answers);
}

std::optional<Error> absence(const core::Json& answers, const char* library) {
  if (const Json* error = answers.find("error")) return error_from_json(*error);
  if (answers.as_object() != nullptr) return std::nullopt;
  return os_error(2, std::string("load ") + library);
}

}  // namespace nobounce::recording
