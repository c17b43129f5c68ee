// Whether a drive may be owned.
#include "judge/drive.hpp"

#include <string>
#include <utility>

namespace nobounce::judge {
namespace {

Finding drive_met(Cause cause, const core::DriveFacts& facts, std::string observed,
                  std::string needed, std::string source) {
  return Finding{.cause = cause,
                 .subject = "nvme:" + facts.bdf,
                 .state = FindingState::met,
                 .observed = std::move(observed),
                 .needed = std::move(needed),
                 .remedy = {},
                 .source = std::move(source)};
}

void refute(Finding& finding, std::string remedy) {
  finding.state = FindingState::unmet;
  finding.remedy = std::move(remedy);
}

}  // namespace

std::vector<Finding> judge_drive(const core::DriveFacts& facts, Consent consent) {
  std::vector<Finding> findings;
  findings.push_back(
      drive_met(Cause::nvme_in_use, facts, "nothing is mounted from it or built on it",
                "a drive that nobody uses", "/proc/self/mountinfo, /proc/swaps, /sys/block"));
  if (!facts.uses.empty()) {
    std::string all;
    for (const core::DriveUse& use : facts.uses) all += (all.empty() ? "" : ", ") + use.what;
    findings.back().observed = all;
    findings.back().source = facts.uses.front().source;
    refute(findings.back(), std::string(cause_row(Cause::nvme_in_use).remedy));
  }
  findings.push_back(
      drive_met(Cause::nvme_not_vfio, facts,
                facts.driver.empty() ? "it has no driver" : "its driver is " + facts.driver,
                "the driver vfio-pci", "/sys/bus/pci/devices/" + facts.bdf + "/driver"));
  if (facts.driver != "vfio-pci")
    refute(findings.back(), core::commands_to_bind(facts.bdf, facts.driver));
  findings.push_back(drive_met(Cause::nvme_take_needed, facts, "the caller may take it",
                               "the caller's word that the drive may be taken",
                               "the command line"));
  if (consent == Consent::not_given) {
    findings.back().observed = "nobody said that everything on it may be overwritten";
    refute(findings.back(), std::string(cause_row(Cause::nvme_take_needed).remedy));
  }
  return findings;
}

}  // namespace nobounce::judge
