// Who may own a drive.
#include "judge/drive.hpp"

#include <gtest/gtest.h>

namespace nobounce::judge {
namespace {

core::DriveFacts ownable() {
  core::DriveFacts facts;
  facts.bdf = "0000:05:00.0";
  facts.exists = true;
  facts.is_nvme = true;
  facts.driver = "vfio-pci";
  return facts;
}

TEST(JudgeDrive, LetsAnIdleDriveOfVfioGoToWhoeverAsks) {
  EXPECT_EQ(first_unmet(judge_drive(ownable(), Consent::given)), Cause::none);
  EXPECT_EQ(first_unmet(judge_drive(ownable(), Consent::not_given)), Cause::nvme_take_needed);
}

TEST(JudgeDrive, PutsUseBeforeEverythingElse) {
  core::DriveFacts facts = ownable();
  facts.driver = "nvme";
  facts.uses = {{"/dev/nvme0n1 is mounted on /", "/proc/self/mountinfo"},
                {"/dev/nvme0n1p2 holds swap", "/proc/swaps"}};
  const std::vector<Finding> findings = judge_drive(facts, Consent::not_given);
  EXPECT_EQ(first_unmet(findings), Cause::nvme_in_use);
  EXPECT_EQ(findings[0].observed, "/dev/nvme0n1 is mounted on /, /dev/nvme0n1p2 holds swap");
}

TEST(JudgeDrive, GivesTheCommandsThatBindIt) {
  core::DriveFacts facts = ownable();
  facts.driver = "";
  const std::vector<Finding> findings = judge_drive(facts, Consent::given);
  EXPECT_EQ(first_unmet(findings), Cause::nvme_not_vfio);
  EXPECT_EQ(findings[1].remedy,
            "sudo modprobe vfio-pci && echo vfio-pci | sudo tee "
            "/sys/bus/pci/devices/0000:05:00.0/driver_override && echo 0000:05:00.0 | sudo tee "
            "/sys/bus/pci/drivers_probe");
  facts.driver = "nvme";
  EXPECT_NE(judge_drive(facts, Consent::given)[1].remedy.find("/drivers/nvme/unbind"),
            std::string::npos);
}

}  // namespace
}  // namespace nobounce::judge
