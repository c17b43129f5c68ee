// Our private cufile.json: its content, and when it counts as ours.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/json.hpp"
#include "provider/storage/storage_provider.hpp"
#include "support/memory_host.hpp"

namespace nobounce::provider {
namespace {

bool flag_of(const core::Json& json, const std::string& pointer, bool otherwise) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  return found != nullptr && found->as_bool() != nullptr ? *found->as_bool() : otherwise;
}

/// A library that is open or not, and whose parameters can be set.
class ParameterCufile : public system::Cufile {
 public:
  long opened = 0;
  bool compat = true;
  std::vector<int> switched_off;
  int refuse = 0;  ///< this parameter cannot be set
  long use_count() override { return opened; }
  CUfileError_t get_parameter_bool(int, bool* value) override {
    *value = compat;
    return {0, 0};
  }
  CUfileError_t set_parameter_bool(int parameter, bool value) override {
    if (parameter == refuse) return {system::cufile::error_invalid_value, 0};
    EXPECT_FALSE(value);
    switched_off.push_back(parameter);
    return {0, 0};
  }
};

/// The environment of a process with several threads.
class ThreadedEnvironment : public support::MemoryHost {
 public:
  class Refusing : public support::MemoryEnvironment {
   public:
    Status set(std::string_view, std::string_view) override {
      return Error{.origin = ErrorOrigin::session, .attempted = "set a variable"};
    }
  };
  system::Environment& environment() override { return refusing_; }

 private:
  Refusing refusing_;
};

TEST(CufileConfiguration, TextSwitchesEveryWayOfStagingOff) {
  const Result<core::Json> json = core::parse_json(private_cufile_json(), "private");
  ASSERT_TRUE(json.ok()) << to_string(json.error());
  EXPECT_FALSE(flag_of(*json, "/properties/allow_compat_mode", true));
  EXPECT_FALSE(flag_of(*json, "/properties/force_compat_mode", true));
  EXPECT_FALSE(flag_of(*json, "/properties/use_pci_p2pdma", true));
  EXPECT_TRUE(flag_of(*json, "/properties/gds_rdma_write_support", false));
  EXPECT_FALSE(flag_of(*json, "/properties/rdma_dynamic_routing", true));
  EXPECT_FALSE(flag_of(*json, "/fs/generic/posix_unaligned_writes", true));
  EXPECT_TRUE(flag_of(*json, "/fs/weka/rdma_write_support", false));
  EXPECT_TRUE(flag_of(*json, "/fs/gpfs/gds_write_support", false));
  EXPECT_FALSE(flag_of(*json, "/sparse/p2p_compat_enable", true));
  for (const std::string name : {"lustre", "beegfs", "scatefs"}) {
    const core::Json* found = core::resolve_pointer(*json, "/fs/" + name + "/posix_gds_min_kb");
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(*found->as_unsigned(), 0u) << name;
  }
  const core::Json* order = core::resolve_pointer(*json, "/properties/rdma_dynamic_routing_order");
  ASSERT_NE(order, nullptr);
  for (const core::Json& step : *order->as_array()) EXPECT_NE(*step.as_text(), "SYS_MEM");
  const core::Json* statistics = core::resolve_pointer(*json, "/profile/cufile_stats");
  ASSERT_NE(statistics, nullptr);
  EXPECT_EQ(*statistics->as_unsigned(), 3u);
}

TEST(CufileConfiguration, IsOursWhenNobodyOpenedCufileAndOneThreadRuns) {
  support::MemoryHost host;
  ParameterCufile cufile;
  host.cufile_table = &cufile;
  const CufileConfiguration configuration = CufileConfiguration::install(host, true);
  EXPECT_EQ(configuration.ours().value, std::optional<bool>(true)) << configuration.ours().observed;
  const std::optional<std::string> path = host.variables.get("CUFILE_ENV_PATH_JSON");
  ASSERT_TRUE(path.has_value());
  const Result<system::FileHandle> file = host.storage().open(*path, {});
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  std::string text(private_cufile_json().size() + 10, '\0');
  const Result<std::size_t> count = host.storage().read(
      *file, reinterpret_cast<std::byte*>(text.data()), text.size(), FileOffset{0});
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(text.substr(0, *count), private_cufile_json());
  (void)host.storage().close(*file);
}

TEST(CufileConfiguration, ASecondSessionFindsItInForceAndMakesNoSecondFile) {
  support::MemoryHost host;
  ParameterCufile cufile;
  host.cufile_table = &cufile;
  (void)CufileConfiguration::install(host, true);
  const std::optional<std::string> first = host.variables.get("CUFILE_ENV_PATH_JSON");
  cufile.opened = 1;
  cufile.compat = false;
  EXPECT_EQ(CufileConfiguration::install(host, true).ours().value, std::optional<bool>(true));
  cufile.opened = 0;
  EXPECT_EQ(CufileConfiguration::install(host, true).ours().value, std::optional<bool>(true));
  EXPECT_EQ(host.variables.get("CUFILE_ENV_PATH_JSON"), first);
}

TEST(CufileConfiguration, IsNotOursWhenSomebodyOpenedCufileBefore) {
  support::MemoryHost host;
  ParameterCufile cufile;
  cufile.opened = 1;
  cufile.compat = false;  // even where compatibility mode happens to be off
  host.cufile_table = &cufile;
  const CufileConfiguration configuration = CufileConfiguration::install(host, true);
  EXPECT_EQ(configuration.ours().value, std::optional<bool>(false));
  EXPECT_NE(configuration.ours().observed.find("before"), std::string::npos);
  EXPECT_FALSE(host.variables.get("CUFILE_ENV_PATH_JSON").has_value());
}

TEST(CufileConfiguration, OpenLibraryThatStillAllowsCompatIsNotOurs) {
  support::MemoryHost host;
  ParameterCufile cufile;
  host.cufile_table = &cufile;
  (void)CufileConfiguration::install(host, true);
  cufile.opened = 1;
  cufile.compat = true;
  EXPECT_EQ(CufileConfiguration::install(host, true).ours().value, std::optional<bool>(false));
}

TEST(CufileConfiguration, WithSeveralThreadsOnlySingleSwitchesAreSetAndItSaysSo) {
  ThreadedEnvironment host;
  ParameterCufile cufile;
  cufile.refuse = system::cufile::parameter_bool_force_compat_mode;
  host.cufile_table = &cufile;
  const CufileConfiguration configuration = CufileConfiguration::install(host, true);
  EXPECT_EQ(configuration.ours().value, std::optional<bool>(false));
  EXPECT_EQ(cufile.switched_off, (std::vector<int>{system::cufile::parameter_bool_allow_compat_mode,
                                                   system::cufile::parameter_bool_use_pcip2pdma}));
  EXPECT_NE(configuration.ours().observed.find("ALLOW_COMPAT_MODE"), std::string::npos);
  EXPECT_NE(configuration.ours().observed.find("refused: FORCE_COMPAT_MODE"), std::string::npos);
}

TEST(CufileConfiguration, NotAllowedIsNotOursAndTouchesNothing) {
  support::MemoryHost host;
  ParameterCufile cufile;
  host.cufile_table = &cufile;
  EXPECT_EQ(CufileConfiguration::install(host, false).ours().value, std::optional<bool>(false));
  EXPECT_TRUE(host.variables.variables.empty());
}

TEST(CufileConfiguration, WithoutTheLibraryNothingIsSaid) {
  support::MemoryHost host;
  EXPECT_FALSE(CufileConfiguration::install(host, true).ours().value.has_value());
  EXPECT_TRUE(host.variables.variables.empty());
}

}  // namespace
}  // namespace nobounce::provider
