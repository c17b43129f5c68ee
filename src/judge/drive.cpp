// Whether a drive may be owned.
#include "judge/drive.hpp"

#include <string>

#include "judge/findings.hpp"

namespace nobounce::judge {
std::vector<Finding> judge_drive(const core::DriveFacts& facts, Consent consent) {
  const std::string subject = "nvme:" + facts.bdf;
  std::vector<Finding> findings;

  const Rule idle{Cause::nvme_in_use, subject, "a drive that nobody uses"};
  if (facts.uses.empty()) {
    findings.push_back(met(idle, "nothing is mounted from it or built on it",
                           "/proc/self/mountinfo, /proc/swaps, /sys/block"));
  } else {
    std::string all;
    for (const core::DriveUse& use : facts.uses) all += (all.empty() ? "" : ", ") + use.what;
    findings.push_back(unmet(idle, all, facts.uses.front().source));
  }

  const Rule bound{Cause::nvme_not_vfio, subject, "the driver vfio-pci"};
  const std::string observed =
      facts.driver.empty() ? "it has no driver" : "its driver is " + facts.driver;
  const std::string source = "/sys/bus/pci/devices/" + facts.bdf + "/driver";
  if (facts.driver == "vfio-pci") {
    findings.push_back(met(bound, observed, source));
  } else {
    findings.push_back(unmet(bound, observed, source));
    findings.back().remedy = core::commands_to_bind(facts.bdf, facts.driver);
  }

  const Rule word{Cause::nvme_take_needed, subject,
                  "the caller's word that the drive may be taken"};
  findings.push_back(
      consent == Consent::not_given
          ? unmet(word, "nobody said that everything on it may be overwritten", "the command line")
          : met(word, "the caller may take it", "the command line"));
  return findings;
}

}  // namespace nobounce::judge
