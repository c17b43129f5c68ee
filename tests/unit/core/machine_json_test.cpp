// Machine documents: strict to read, complete to write, and the same machine after a round trip.
#include "core/machine_json.hpp"

#include <gtest/gtest.h>

#include <set>

#include "unit/core/random_machine.hpp"

namespace nobounce::core {
namespace {

Machine machine_of(std::string_view text) {
  Result<Machine> result = machine_from_text(text, "m.json");
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : to_string(result.error()));
  return result.ok() ? *result : Machine{};
}

struct BadMachine {
  std::string text;
  std::string detail;  // all of it
};

class MachineRefuses : public testing::TestWithParam<BadMachine> {};

TEST_P(MachineRefuses, NamingFileAndField) {
  const Result<Machine> result = machine_from_text(GetParam().text, "m.json");
  ASSERT_FALSE(result.ok()) << GetParam().text;
  EXPECT_EQ(result.error().origin, ErrorOrigin::input);
  EXPECT_EQ(result.error().attempted, "read m.json");
  EXPECT_EQ(result.error().detail, GetParam().detail);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, MachineRefuses,
    testing::Values(
        BadMachine{R"([])", "/: needs an object, not an array"},
        BadMachine{"{\"name\":\"a\",\n\"name\":\"b\"}", "line 2: duplicate key \"name\""},
        BadMachine{R"({"schema":"nobounce.machine/2"})", "/schema: needs \"nobounce.machine/1\""},
        BadMachine{R"({"schema":1})", "/schema: needs \"nobounce.machine/1\""},
        BadMachine{R"({"gpu":[]})", "/gpu: unknown field, the nearest is /gpus"},
        BadMachine{R"({"gpus":[{},{"bar1":1}]})",
                   "/gpus/1/bar1: unknown field, the nearest is /gpus/1/bar1_bytes"},
        BadMachine{R"({"modules":{"nvidia-fs":true}})",
                   "/modules/nvidia-fs: unknown field, the nearest is /modules/nvidia_fs"},
        BadMachine{R"({"switches":[{"ports":[{"gpu":0}]}]})",
                   "/switches/0/ports/0/gpu: unknown field, the nearest is "
                   "/switches/0/ports/0/acs"},
        BadMachine{R"({"modules":{"nvidia_fs":1}})",
                   "/modules/nvidia_fs: needs true or false, not a number"},
        BadMachine{R"({"modules":[]})", "/modules: needs an object, not an array"},
        BadMachine{R"({"gpus":{}})", "/gpus: needs an array, not an object"},
        BadMachine{R"({"gpus":[7]})", "/gpus/0: needs an object, not a number"},
        BadMachine{R"({"name":null})", "/name: needs a text, not null"},
        BadMachine{R"({"gpus":[{"bar1_bytes":-1}]})",
                   "/gpus/0/bar1_bytes: needs a whole number, zero or more, not a negative "
                   "number"},
        BadMachine{R"({"gpus":[{"bar1_bytes":1.5}]})",
                   "/gpus/0/bar1_bytes: needs a whole number, zero or more, not a number "
                   "with a fraction"},
        BadMachine{R"({"gpus":[{"bar1_bytes":"1GiB"}]})",
                   "/gpus/0/bar1_bytes: needs a whole number, zero or more, not a text \"1GiB\""},
        BadMachine{R"({"drives":[{"major":4294967296}]})",
                   "/drives/0/major: 4294967296 is more than 4294967295"},
        BadMachine{R"({"kernel":{"iommu":"on"}})",
                   "/kernel/iommu: needs off, identity, translated, unknown or inherit, not a text "
                   "\"on\""},
        BadMachine{R"({"host_bridges":[{"peer_forwarding":true}]})",
                   "/host_bridges/0/peer_forwarding: needs refused, allowed or unknown, "
                   "not true or false"},
        BadMachine{R"({"gpus":[{"parent":"bridge:0"}]})",
                   "/gpus/0/parent: needs a parent such as host_bridge:0, switch:1 or "
                   "nic:0, not a text "
                   "\"bridge:0\""},
        BadMachine{R"({"gpus":[{"parent":"switch:01"}]})",
                   "/gpus/0/parent: needs a parent such as host_bridge:0, switch:1 or "
                   "nic:0, not a text "
                   "\"switch:01\""},
        BadMachine{R"({"environment":{"A":1}})", "/environment/A: needs a text, not a number"},
        BadMachine{R"({"switches":[{"host_bridge":0,"parent":"switch:0"}]})",
                   "/switches/0: has both host_bridge and parent: one of them, please"}));

INSTANTIATE_TEST_SUITE_P(
    References, MachineRefuses,
    testing::Values(
        BadMachine{R"({"host_bridges":[{"numa":1}]})",
                   "/host_bridges/0/numa: numa_nodes:1 does not exist, there is 1"},
        BadMachine{R"({"gpus":[{"parent":"host_bridge:2"}]})",
                   "/gpus/0/parent: host_bridge:2 does not exist, there is 1"},
        BadMachine{R"({"gpus":[{"parent":"switch:0"}]})",
                   "/gpus/0/parent: switch:0 does not exist, there are 0"},
        BadMachine{R"({"nics":[{}],"gpus":[{"parent":"nic:0"}]})",
                   "/gpus/0/parent: only a drive can sit behind a nic"},
        BadMachine{R"({"drives":[{"parent":"nic:0"}]})",
                   "/drives/0/parent: nic:0 does not exist, there are 0"},
        BadMachine{R"({"switches":[{"host_bridge":3}]})",
                   "/switches/0/host_bridge: host_bridge:3 does not exist, there is 1"},
        BadMachine{R"({"switches":[{"parent":"switch:0"}]})",
                   "/switches/0/parent: the switches above it form a cycle"},
        BadMachine{
            R"({"switches":[{"host_bridge":0},{"parent":"switch:2"},{"parent":"switch:1"}]})",
            "/switches/1/parent: the switches above it form a cycle"},
        BadMachine{R"({"nics":[{"name":"a"},{"name":"a"}]})", "/nics/1/name: the name a is taken"},
        BadMachine{R"({"drives":[{"name":"a"},{"name":"a"}]})",
                   "/drives/1/name: the name a is taken"},
        BadMachine{R"({"drives":[{"name":"../x"}]})",
                   "/drives/0/name: \"../x\" cannot be a device's name"},
        BadMachine{R"({"drives":[{"name":""}]})", "/drives/0/name: empty"},
        BadMachine{R"({"switches":[{"ports":[{"device":"gpu:0"}]}]})",
                   "/switches/0/ports/0/device: \"gpu:0\" is no device of this machine"},
        BadMachine{R"({"gpus":[{}],"switches":[{"ports":[{"device":"gpu:0"}]}]})",
                   "/switches/0/ports/0/device: gpu:0 is not below switch:0 but below "
                   "host_bridge:0"},
        BadMachine{
            R"({"gpus":[{"parent":"switch:0"}],"switches":[{"ports":[{"device":"gpu:0"},{"device":"gpu:0"}]}]})",
            "/switches/0/ports/1/device: gpu:0 has a port already"},
        BadMachine{R"({"switches":[{"acs":"inherit"}]})",
                   "/switches/0/acs: only a port can inherit"},
        BadMachine{R"({"host_bridges":[{"acs":"inherit"}]})",
                   "/host_bridges/0/acs: only a port can inherit"},
        BadMachine{R"({"gpus":[{"bdf":"01:00"}]})",
                   "/gpus/0/bdf: \"01:00\" is not of the form 0000:01:00.0 (lower case)"},
        BadMachine{R"({"gpus":[{"bdf":"0000:01:00.0"}],"nics":[{"bdf":"0000:01:00.0"}]})",
                   "/nics/0/bdf: the bus address 0000:01:00.0 is taken"},
        BadMachine{R"({"kernel":{"iommu":"inherit"}})", "/kernel/iommu: only a device can inherit"},
        BadMachine{
            R"({"switches":[{}],"drives":[{"bdf":"0000:01:00.0"},{"bdf":"0000:01:00.0","parent":"switch:0"}]})",
            "/drives/1/bdf: nvme1n1 shares the bus address 0000:01:00.0 with nvme0n1, but not its "
            "parent and driver"},
        BadMachine{R"({"drives":[{"name":"md0","driver":"md","parts":["sda"]}]})",
                   "/drives/0/parts/0: there is no drive sda"},
        BadMachine{
            R"({"drives":[{"name":"a","driver":"dm","parts":["b"]},{"name":"b","driver":"dm","parts":["a"]}]})",
            "/drives/0/parts: a is a part of itself"},
        BadMachine{R"({"gpus":[{}],"host_bridges":[{"ports":[{"device":"gpu:1"}]}]})",
                   "/host_bridges/0/ports/0/device: \"gpu:1\" is no device of this machine"},
        BadMachine{
            R"({"gpus":[{}],"host_bridges":[{"ports":[{"device":"gpu:0","acs_control":"29"}]}]})",
            "/host_bridges/0/ports/0/acs_control: \"29\" is not of the form 0x001d"},
        BadMachine{R"({"gpus":[{"uuid":"GPU-1"},{"uuid":"GPU-1"}]})",
                   "/gpus/1/uuid: the uuid GPU-1 is taken"},
        BadMachine{R"({"drives":[{"major":8,"minor":1},{"major":8,"minor":1}]})",
                   "/drives/1/minor: the device number 8:1 is taken"},
        BadMachine{R"({"mounts":[{"point":"/","drive":"sda"}]})",
                   "/mounts/0/drive: there is no drive sda"},
        BadMachine{R"({"mounts":[{"point":"/a/"}]})",
                   "/mounts/0/point: \"/a/\" is not a plain absolute path"},
        BadMachine{R"({"mounts":[{"point":"/a/../b"}]})",
                   "/mounts/0/point: \"/a/../b\" is not a plain absolute path"},
        BadMachine{R"({"mounts":[{"point":"a"}]})",
                   "/mounts/0/point: \"a\" is not a plain absolute path"},
        BadMachine{R"({"mounts":[{"type":""}]})", "/mounts/0/type: empty"},
        BadMachine{R"({"gpus":[{}],"nvlinks":[{"source_gpu":0,"target_gpu":1}]})",
                   "/nvlinks/0/target_gpu: gpu:1 does not exist, there is 1"},
        BadMachine{R"({"gpus":[{}],"nvlinks":[{}]})",
                   "/nvlinks/0/target_gpu: joins a GPU with itself"},
        BadMachine{R"({"gpus":[{},{}],"nvlinks":[{"target_gpu":1,"count":0}]})",
                   "/nvlinks/0/count: is zero"},
        BadMachine{R"({"gpus":[{},{}],"nvlinks":[{"target_gpu":1},{"source_gpu":1}]})",
                   "/nvlinks/1: the pair is listed twice (a link counts in both directions)"}));

TEST(MachineJson, SaysWhichFieldWasMeant) {
  const Result<Machine> result = machine_from_text(R"({"mounts":[{"pont":"/"}]})", "m.json");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().remedy, "did you mean /mounts/0/point?");
}

TEST(MachineJson, RefusesMoreDevicesThanAReferenceCanName) {
  std::string text = R"({"gpus":[{})";
  for (int i = 0; i < 1024; ++i) text += ",{}";
  const Result<Machine> many = machine_from_text(text + "]}", "m.json");
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().detail, "/gpus: more than 1024 items");
  for (int i = 0; i < 4096; ++i) text += ",{}";
  EXPECT_EQ(machine_from_text(text + "]}", "m.json").error().detail, "/gpus: more than 4096 items");
}

TEST(MachineJson, NamespacesOfOneControllerShareItsAddress) {
  const Machine machine = machine_of(
      R"({"kernel":{"iommu":"identity"},"drives":[{"name":"nvme0n1","bdf":"0000:01:00.0"},{"name":"nvme0n2","bdf":"0000:01:00.0","namespace_id":2}]})");
  EXPECT_EQ(machine.drives[0].bdf, machine.drives[1].bdf);
  EXPECT_EQ(machine.drives[0].iommu_group, "0");
  EXPECT_EQ(machine.drives[1].iommu_group, "0");
}

TEST(MachineJson, AnEmptyDocumentIsAMachineWithoutDevices) {
  const Machine machine = machine_of("{}");
  EXPECT_EQ(machine.numa_nodes.size(), 1u);
  EXPECT_EQ(machine.host_bridges.size(), 1u);
  ASSERT_EQ(machine.mounts.size(), 1u);
  EXPECT_EQ(machine.mounts[0].point, "/");
  EXPECT_EQ(machine.mounts[0].type, "tmpfs");
  EXPECT_EQ(machine.mounts[0].drive, "");
}

TEST(MachineJson, FillsInWhatIsLeftOut) {
  const Machine machine = machine_of(R"({
    "host_bridges": [{}, {}],
    "switches": [{"host_bridge": 1}, {"parent": "switch:0"}],
    "gpus": [{"parent": "switch:1", "memory_bytes": 1000}, {}],
    "nics": [{"parent": "switch:0"}, {}],
    "drives": [{"parent": "switch:1"}, {"driver": "virtio_blk"}, {"driver": "nfs", "parent": "nic:1"}]})");
  EXPECT_EQ(machine.gpus[0].bar1_bytes, 1000u);
  EXPECT_EQ(machine.gpus[1].memory_bytes, 16ull << 30);
  EXPECT_EQ(machine.gpus[0].link, (PcieLink{4, 16, 4, 16}));
  EXPECT_EQ(machine.drives[0].link, (PcieLink{4, 4, 4, 4}));
  EXPECT_EQ(machine.nics[0].name, "mlx5_0");
  EXPECT_EQ(machine.nics[1].name, "mlx5_1");
  EXPECT_EQ(machine.drives[1].name, "nvme1n1");
  EXPECT_EQ(machine.drives[0].major, 259u);
  EXPECT_EQ(machine.drives[1].major, 254u);
  EXPECT_EQ(machine.drives[2].major, 0u);
  EXPECT_EQ(machine.drives[2].minor, 52u);
  EXPECT_EQ(machine.drives[2].bdf, "") << "a file server has no address on our bus";
  EXPECT_EQ(machine.switches[0].ports,
            (std::vector<SwitchPort>{{"switch:1", AcsMode::inherit}, {"nic:0", AcsMode::inherit}}));
  EXPECT_EQ(machine.switches[1].ports,
            (std::vector<SwitchPort>{{"gpu:0", AcsMode::inherit}, {"drive:0", AcsMode::inherit}}));
  EXPECT_EQ(machine.mounts[0].drive, "nvme0n1");
  EXPECT_EQ(machine.mounts[0].type, "ext4");
  EXPECT_EQ(machine.mounts[0].options, "rw,relatime,data=ordered");
  std::set<std::string> addresses = {machine.gpus[0].bdf,   machine.gpus[1].bdf,
                                     machine.nics[0].bdf,   machine.nics[1].bdf,
                                     machine.drives[0].bdf, machine.drives[1].bdf};
  EXPECT_EQ(addresses.size(), 6u);
  EXPECT_EQ(addresses.count(""), 0u);
  EXPECT_NE(machine.gpus[0].uuid, machine.gpus[1].uuid);
  EXPECT_EQ(machine.gpus[0].uuid.size(),
            std::string("GPU-00000000-0000-0000-0000-000000000000").size());
}

TEST(MachineJson, FillsInTheSameEveryTime) {
  const std::string_view text = R"({"gpus":[{},{}],"drives":[{},{}],"nics":[{}]})";
  EXPECT_EQ(machine_of(text), machine_of(text));
}

TEST(MachineJson, KeepsAZeroOrAnEmptyTextThatWasGiven) {
  const Machine machine = machine_of(
      R"({"gpus":[{"bar1_bytes":0,"uuid":"","bdf":"","link":{"generation":0,"width":0,"generation_max":0,"width_max":0}}]})");
  EXPECT_EQ(machine.gpus[0].bar1_bytes, 0u);
  EXPECT_EQ(machine.gpus[0].uuid, "");
  EXPECT_EQ(machine.gpus[0].bdf, "");
  EXPECT_EQ(machine.gpus[0].link, PcieLink{});
}

TEST(MachineJson, MakesUpOnlyFreeNamesAndAddresses) {
  const Machine given = machine_of(R"({"gpus":[{}],"drives":[{}]})");
  const Machine machine = machine_of(
      R"({"gpus":[{},{"bdf":")" + given.gpus[0].bdf + R"(","uuid":")" + given.gpus[0].uuid +
      R"("}],"drives":[{},{"name":"nvme0n1","major":259,"minor":0}],"nics":[{},{"name":"mlx5_0"}]})");
  EXPECT_NE(machine.gpus[0].bdf, given.gpus[0].bdf);
  EXPECT_NE(machine.gpus[0].uuid, given.gpus[0].uuid);
  EXPECT_EQ(machine.drives[0].name, "nvme1n1");
  EXPECT_EQ(machine.drives[0].minor, 1u);
  EXPECT_EQ(machine.nics[0].name, "mlx5_1");
}

TEST(MachineJson, ALinkWithoutABestStateIsAtItsBest) {
  const Machine machine = machine_of(R"({"gpus":[{"link":{"generation":3,"width":8}}]})");
  EXPECT_EQ(machine.gpus[0].link, (PcieLink{3, 8, 3, 8}));
}

TEST(MachineJson, WritesASwitchAsItWasMeant) {
  const Json document = machine_to_json(
      machine_of(R"({"switches":[{"parent":"host_bridge:0"},{"parent":"switch:0"}]})"));
  EXPECT_EQ(*resolve_pointer(document, "/switches/0/host_bridge"), Json(0));
  EXPECT_EQ(resolve_pointer(document, "/switches/0/parent"), nullptr);
  EXPECT_EQ(*resolve_pointer(document, "/switches/1/parent"), Json("switch:0"));
  EXPECT_EQ(resolve_pointer(document, "/switches/1/host_bridge"), nullptr);
}

TEST(MachineJson, WritesEveryFieldSchemaFirst) {
  const Json document = machine_to_json(machine_of(
      R"({"switches":[{}],"gpus":[{"parent":"switch:0"},{}],"nics":[{}],"drives":[{}],"nvlinks":[{"target_gpu":1}]})"));
  EXPECT_EQ(document.as_object()->front().first, "schema");
  EXPECT_EQ(document.as_object()->front().second, Json("nobounce.machine/1"));
  for (const char* pointer : {"/name",
                              "/kernel/release",
                              "/kernel/pci_p2pdma",
                              "/kernel/dmabuf",
                              "/kernel/iommu",
                              "/modules/nvidia_fs",
                              "/modules/nvidia_peermem",
                              "/modules/nvme",
                              "/libcufile",
                              "/udev",
                              "/guest",
                              "/numa_nodes/0/socket",
                              "/numa_nodes/0/memory_bytes",
                              "/host_bridges/0/numa",
                              "/host_bridges/0/peer_forwarding",
                              "/host_bridges/0/acs",
                              "/switches/0/host_bridge",
                              "/switches/0/acs",
                              "/switches/0/ports/0/device",
                              "/switches/0/ports/0/acs",
                              "/gpus/0/parent",
                              "/gpus/0/memory_bytes",
                              "/gpus/0/bar1_bytes",
                              "/gpus/0/peer_status",
                              "/gpus/0/mode",
                              "/gpus/0/product",
                              "/gpus/0/gpudirect_rdma",
                              "/gpus/0/bdf",
                              "/gpus/0/uuid",
                              "/gpus/0/link/generation",
                              "/gpus/0/link/width",
                              "/gpus/0/link/generation_max",
                              "/gpus/0/link/width_max",
                              "/nics/0/parent",
                              "/nics/0/name",
                              "/nics/0/bdf",
                              "/nics/0/link/width",
                              "/drives/0/parent",
                              "/drives/0/name",
                              "/drives/0/driver",
                              "/drives/0/nvidia_fs_registered",
                              "/drives/0/bdf",
                              "/drives/0/link/width",
                              "/drives/0/major",
                              "/drives/0/minor",
                              "/mounts/0/point",
                              "/mounts/0/drive",
                              "/mounts/0/type",
                              "/mounts/0/options",
                              "/mounts/0/direct_io",
                              "/nvlinks/0/source_gpu",
                              "/nvlinks/0/target_gpu",
                              "/nvlinks/0/count",
                              "/environment"}) {
    EXPECT_NE(resolve_pointer(document, pointer), nullptr) << pointer;
  }
}

TEST(MachineJson, RoundTripsEveryRandomMachine) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Machine machine = random_machine(seed);
    ASSERT_TRUE(validate(machine).ok()) << seed << ": " << to_string(validate(machine).error());
    const std::string text = dump_json(machine_to_json(machine), seed % 2 == 0);
    const Result<Machine> back = machine_from_text(text, "m.json");
    ASSERT_TRUE(back.ok()) << seed << ": " << to_string(back.error());
    ASSERT_EQ(*back, machine) << seed << "\n" << text;
  }
}

TEST(MachineJson, CompletingACompleteMachineChangesNothing) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine = random_machine(seed);
    complete_machine(machine);
    ASSERT_TRUE(validate(machine).ok()) << seed;
    Machine again = machine;
    complete_machine(again);
    ASSERT_EQ(again, machine) << seed;
  }
}

}  // namespace
}  // namespace nobounce::core
