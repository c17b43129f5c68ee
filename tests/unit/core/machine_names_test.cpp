// Device names in all their spellings, and which mount and drive a path lies on.
#include <gtest/gtest.h>

#include "core/machine_json.hpp"

namespace nobounce::core {
namespace {

Machine machine_with_names() {
  return machine_from_text(R"({"name": "box",
    "gpus": [{"bdf": "0000:3b:00.0", "uuid": "GPU-aabb"}, {"bdf": "10000:01:00.0"}],
    "nics": [{"name": "mlx5_0"}, {"name": "mlx5_bond_1"}],
    "drives": [{"name": "nvme0n1"}, {"name": "nvme1n1"}],
    "mounts": [{"point": "/", "drive": "nvme0n1"}, {"point": "/data", "drive": "nvme1n1", "type": "xfs"},
               {"point": "/data/scratch", "type": "tmpfs"}, {"point": "/data", "type": "nfs4"},
               {"point": "/data/scratch/deep", "drive": "nvme0n1"}]})",
                           "box")
      .value();
}

TEST(DeviceName, ResolvesEverySpelling) {
  const Machine machine = machine_with_names();
  const DeviceRef gpu0{DeviceRef::Kind::gpu, 0};
  for (const char* name : {"gpu:0", "gpu:GPU-aabb", "gpu:gpu-AABB", "gpu:0000:3b:00.0",
                           "gpu:3B:00.0", "gpu:00000000:3B:00.0"}) {
    const Result<DeviceRef> device = device_from_name(machine, name);
    ASSERT_TRUE(device.ok()) << name;
    EXPECT_EQ(*device, gpu0) << name;
  }
  EXPECT_EQ(device_from_name(machine, "gpu:10000:01:00.0").value(),
            (DeviceRef{DeviceRef::Kind::gpu, 1}));
  EXPECT_EQ(device_from_name(machine, "nic:mlx5_bond_1").value(),
            (DeviceRef{DeviceRef::Kind::nic, 1}));
  EXPECT_EQ(device_from_name(machine, "drive:nvme1n1").value(),
            (DeviceRef{DeviceRef::Kind::drive, 1}));
  EXPECT_EQ(device_from_name(machine, "host:0").value(), (DeviceRef{DeviceRef::Kind::host, 0}));
}

TEST(DeviceName, GoesThereAndBack) {
  const Machine machine = machine_with_names();
  for (const DeviceRef device :
       {DeviceRef{DeviceRef::Kind::gpu, 1}, DeviceRef{DeviceRef::Kind::nic, 0},
        DeviceRef{DeviceRef::Kind::drive, 1}, DeviceRef{DeviceRef::Kind::host, 0}}) {
    EXPECT_EQ(device_from_name(machine, device_name(machine, device)).value(), device);
  }
  EXPECT_EQ(device_name(machine, DeviceRef{DeviceRef::Kind::nic, 1}), "nic:mlx5_bond_1");
  EXPECT_EQ(device_name(machine, DeviceRef{DeviceRef::Kind::file, 7}), "file:7");
  EXPECT_EQ(device_name(machine, DeviceRef{}), "none");
}

TEST(DeviceName, SaysWhatExists) {
  const Machine machine = machine_with_names();
  const Result<DeviceRef> gpu = device_from_name(machine, "gpu:2");
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.error().origin, ErrorOrigin::input);
  EXPECT_EQ(to_string(gpu.error()), "find the device gpu:2: machine box has gpu:0 and gpu:1");
  EXPECT_EQ(device_from_name(machine, "drive:sda").error().detail,
            "machine box has drive:nvme0n1 and drive:nvme1n1");
  for (const char* name :
       {"gpu", "gpu:", "gpu:-1", "gpu:00x", "gpu:+0", "gpu:99999999999999999999"}) {
    EXPECT_FALSE(device_from_name(machine, name).ok()) << name;
  }
  for (const char* name : {"", "gpus:0", "GPU:0", "file:0"}) {
    EXPECT_EQ(device_from_name(machine, name).error().detail, "not a device name") << name;
  }
}

TEST(DeviceName, OfAMachineWithoutGpuCarriesThatCause) {
  const Machine machine = machine_from_text("{}", "m").value();
  EXPECT_EQ(device_from_name(machine, "gpu:0").error().cause, Cause::machine_no_gpu);
  EXPECT_EQ(device_from_name(machine, "nic:a").error().cause, Cause::none);
}

TEST(Mount, IsTheLongestThatHoldsThePathAndTheLaterOfEquals) {
  const Machine machine = machine_with_names();
  const auto point_and_type = [&](const char* path) {
    const Mount* mount = mount_of(machine, path);
    return mount == nullptr ? std::string("none") : mount->point + " " + mount->type;
  };
  EXPECT_EQ(point_and_type("/"), "/ ext4");
  EXPECT_EQ(point_and_type("/home/x"), "/ ext4");
  EXPECT_EQ(point_and_type("/data"), "/data nfs4");
  EXPECT_EQ(point_and_type("/data/a"), "/data nfs4");
  EXPECT_EQ(point_and_type("/database"), "/ ext4");
  EXPECT_EQ(point_and_type("/data/scratch"), "/data/scratch tmpfs");
  EXPECT_EQ(point_and_type("/data/scratchy"), "/data nfs4");
  EXPECT_EQ(point_and_type("/data/scratch/deep/er"), "/data/scratch/deep ext4");
  EXPECT_EQ(point_and_type("relative"), "none");
  EXPECT_EQ(point_and_type(""), "none");
}

TEST(Mount, HasADriveOrNone) {
  const Machine machine = machine_with_names();
  EXPECT_EQ(drive_of(machine, machine.mounts[0]), 0u);
  EXPECT_EQ(drive_of(machine, machine.mounts[1]), 1u);
  EXPECT_EQ(drive_of(machine, machine.mounts[2]), std::nullopt);
}

}  // namespace
}  // namespace nobounce::core
