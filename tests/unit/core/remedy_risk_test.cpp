// What remedies cost goes with the remedy that is shown.
#include "core/remedy_risk.hpp"

#include <gtest/gtest.h>

namespace nobounce::core {
namespace {

Finding unmet(Cause cause) {
  return {cause, "gpu:0", FindingState::unmet, "", "", std::string(cause_row(cause).remedy), ""};
}

TEST(RemedyRisk, OfEachWayIsSaid) {
  const std::vector<RemedyRisk> risks = risks_of(unmet(Cause::machine_acs_redirect));
  ASSERT_EQ(risks.size(), 2u);
  EXPECT_EQ(risks[0].lasting, Lasting::until_reboot);
  EXPECT_FALSE(risks[0].needs_reboot);
  EXPECT_EQ(risks[1].lasting, Lasting::always);
  EXPECT_TRUE(risks[1].needs_reboot);
  for (const RemedyRisk& risk : risks) EXPECT_FALSE(risk.gives_up.empty()) << risk.way;
}

TEST(RemedyRisk, GoesWithTheRemedyThatIsShown) {
  Finding finding = unmet(Cause::machine_acs_redirect);
  finding.state = FindingState::unknown;
  finding.remedy = std::string(cause_row(Cause::machine_acs_unreadable).remedy);
  EXPECT_EQ(risks_of(finding), risks_of(Cause::machine_acs_unreadable));
  finding.remedy = cause_row(Cause::machine_cross_socket).remedy;
  EXPECT_TRUE(risks_of(finding).empty());
}

TEST(RemedyRisk, OfARemedyOfItsOwnIsItsCauses) {
  Finding finding = unmet(Cause::nvme_not_vfio);
  finding.remedy = "echo vfio-pci | sudo tee /sys/bus/pci/devices/0000:01:00.0/driver_override";
  EXPECT_EQ(risks_of(finding), risks_of(Cause::nvme_not_vfio));
}

/// A boot parameter works after a boot and stays.
TEST(RemedyRisk, OfWhatNeedsARebootLasts) {
  for (const CauseRow& row : cause_table()) {
    for (const RemedyRisk& risk : risks_of(row.cause)) {
      if (risk.needs_reboot) {
        EXPECT_EQ(risk.lasting, Lasting::always) << row.id;
      }
      EXPECT_FALSE(risk.way.empty()) << row.id;
    }
    const bool boots = row.remedy.find("Boot with") != std::string_view::npos ||
                       row.remedy.find("boot with") != std::string_view::npos ||
                       row.remedy.find("setpci") != std::string_view::npos ||
                       row.remedy.find("modprobe") != std::string_view::npos;
    if (boots) {
      EXPECT_FALSE(risks_of(row.cause).empty()) << row.id;
    }
  }
}

TEST(RemedyRisk, IsOneSentence) {
  EXPECT_EQ(risk_text({"setpci", Lasting::until_reboot, false, "less"}),
            "setpci: until the next reboot; less");
  EXPECT_EQ(risk_text({"iommu=pt", Lasting::always, true, ""}),
            "iommu=pt: for good, after a reboot");
  EXPECT_EQ(risk_text({"sudo", Lasting::this_run, false, ""}), "sudo: for this run");
}

}  // namespace
}  // namespace nobounce::core
