// Insists on the direct path. Where it is refused, says why and how to mend it, and only then
// stages, on purpose.
//   require_direct live FILE          on this machine
//   require_direct workstation FILE   on a software machine that lacks a kernel module
#include <iostream>
#include <string_view>

#include <nobounce/session.hpp>
#include <nobounce/software_machine.hpp>

namespace nb = nobounce;

nb::Result<nb::HostPointer> open_host(std::string_view name) {
  if (name == "live") return nb::live_host();
  nb::Result<nb::Machine> machine = nb::software_machine_description(name);
  if (!machine.ok()) return machine.error();
  machine->modules.nvidia_fs = false;  // so that there is something to refuse
  std::cout << "software machine without nvidia_fs\n";
  return nb::software_machine(*machine);
}

int fail(const nb::Error& error) {
  std::cerr << to_string(error) << '\n';
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: require_direct live|workstation FILE\n", 2;
  const nb::Result<nb::HostPointer> host = open_host(argv[1]);
  if (!host.ok()) return fail(host.error());
  nb::Result<nb::Session> session = nb::Session::open(**host);
  if (!session.ok()) return fail(session.error());
  nb::Result<nb::File> file = session->open_file(argv[2]);
  if (!file.ok()) return fail(file.error());
  nb::Result<nb::Region> memory = session->allocate(0, file->length_bytes());
  if (!memory.ok()) return fail(memory.error());

  nb::Outcome outcome =
      session->transfer(file->place(), memory->place(), {.policy = nb::Policy::direct_required});
  if (outcome.receipt.state == nb::TransferState::refused) {
    // Nothing has moved. The receipt names the causes; plan() tells what was observed.
    std::cout << "refused, " << outcome.receipt.bytes.total() << " bytes moved\n";
    const nb::Result<nb::Route> route =
        session->plan(file->place(), memory->place(), nb::Policy::direct_required);
    if (!route.ok()) return fail(route.error());
    for (const nb::Candidate& candidate : route->candidates) {
      for (const nb::Finding& finding : candidate.assessment.findings) {
        if (finding.state != nb::FindingState::unmet) continue;
        std::cout << to_string(finding.cause) << " (" << finding.subject << ")\n  observed "
                  << finding.observed << "\n  needed   " << finding.needed << "\n  try      "
                  << finding.remedy << '\n';
      }
    }
    outcome =
        session->transfer(file->place(), memory->place(), {.policy = nb::Policy::staged_only});
  }
  if (!outcome.ok()) return fail(*outcome.error);
  std::cout << "arrived: direct " << outcome.receipt.bytes[nb::Carriage::direct]
            << ", bounced in the GPU " << outcome.receipt.bytes[nb::Carriage::device_bounced]
            << ", staged " << outcome.receipt.bytes[nb::Carriage::staged] << '\n';
  return 0;
}
