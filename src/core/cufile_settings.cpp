// The settings of libcufile that stage (storage documentation of GPUDirect Storage, 1.11 to 1.19).
#include "core/cufile_settings.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace nobounce::core {
namespace {

enum class Stages : std::uint8_t { if_true, if_false, if_positive, if_it_holds_sys_mem };

struct Setting {
  std::string_view pointer;
  Stages when = Stages::if_true;
  std::string_view effect;
};

constexpr std::array<Setting, 11> settings = {{
    {"/fs/beegfs/posix_gds_min_kb", Stages::if_positive, "smaller requests on BeeGFS are staged"},
    {"/fs/generic/posix_unaligned_writes", Stages::if_true, "unaligned writes are staged"},
    {"/fs/gpfs/gds_write_support", Stages::if_false, "writes to GPFS are staged"},
    {"/fs/lustre/posix_gds_min_kb", Stages::if_positive, "smaller requests on Lustre are staged"},
    {"/fs/scatefs/posix_gds_min_kb", Stages::if_positive, "smaller requests on ScaTeFS are staged"},
    {"/fs/weka/rdma_write_support", Stages::if_false, "writes to WekaFS are staged"},
    {"/properties/allow_compat_mode", Stages::if_true,
     "where the direct path is missing it stages without a word"},
    {"/properties/force_compat_mode", Stages::if_true, "everything is staged"},
    {"/properties/gds_rdma_write_support", Stages::if_false, "writes over RDMA are staged"},
    {"/properties/rdma_dynamic_routing_order", Stages::if_it_holds_sys_mem,
     "dynamic routing may go through host memory"},
    {"/sparse/p2p_compat_enable", Stages::if_true, "sparse parts of files are staged"},
}};

bool holds_sys_mem(const Json& json) {
  const JsonArray* items = json.as_array();
  return items != nullptr &&
         std::find(items->begin(), items->end(), Json("SYS_MEM")) != items->end();
}

bool stages(const Setting& setting, const Json& value, const Json& document) {
  switch (setting.when) {
    case Stages::if_true:
      return value == Json(true);
    case Stages::if_false:
      return value == Json(false);
    case Stages::if_positive:
      return value.as_unsigned() != nullptr && *value.as_unsigned() > 0;
    case Stages::if_it_holds_sys_mem: {
      const Json* on = resolve_pointer(document, "/properties/rdma_dynamic_routing");
      return on != nullptr && *on == Json(true) && holds_sys_mem(value);
    }
  }
  return false;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> staging_settings(const Json& document) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Setting& setting : settings) {
    const Json* value = resolve_pointer(document, setting.pointer);
    if (value == nullptr || !stages(setting, *value, document)) continue;
    found.emplace_back(setting.pointer, dump_json(*value, true));
  }
  return found;
}

std::string_view staging_effect(std::string_view pointer) {
  for (const Setting& setting : settings) {
    if (setting.pointer == pointer) return setting.effect;
  }
  return {};
}

}  // namespace nobounce::core
