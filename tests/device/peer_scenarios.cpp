// Peer scenarios that run as processes of their own: a context reset under enabled access, and the
// other end of an IPC handle.
#include <fstream>

#include "device/peer_rig.hpp"

namespace nobounce::device {

namespace {

constexpr std::uint64_t mib = 1u << 20;

std::string pair_failure(Session& session, const Region& source, const Region& target) {
  const Outcome outcome = session.transfer(source.place(), target.place(), within(peer_limit));
  if (!outcome.ok()) return why(outcome);
  const auto wanted = session.checksum(source.place());
  const auto there = session.checksum(target.place());
  if (!wanted.ok() || !there.ok()) return "no checksum";
  return *wanted == *there ? "" : "other bytes";
}

}  // namespace

int peer_context_reset(const std::vector<std::string>&) {
  {
    Live live;
    if (!live.session) return failed(live.failure);
    auto source = live.session->allocate(0, 64 * mib);
    auto target = live.session->allocate(1, 64 * mib);
    if (!source.ok() || !target.ok()) return failed("no memory");
    if (!live.session->fill_pattern(source->place(), 1).ok()) return failed("no pattern");
    const std::string before = pair_failure(*live.session, *source, *target);
    if (!before.empty()) return failed("before the reset: " + before);
    if (driver().reset(1) != 0) return failed("no reset");
    const Outcome broken =
        live.session->transfer(source->place(), target->place(), within(peer_limit));
    if (broken.ok()) return failed("a transfer into a context that is gone succeeded");
    std::fprintf(stderr, "as it should: %s\n", why(broken).c_str());
  }
  Live again;  // peer access went with the context: a new session has it again
  if (!again.session) return failed("a new session: " + again.failure);
  auto source = again.session->allocate(0, 64 * mib);
  auto target = again.session->allocate(1, 64 * mib);
  if (!source.ok() || !target.ok()) return failed("no memory after the reset");
  if (!again.session->fill_pattern(source->place(), 2).ok()) return failed("no pattern");
  const std::string after = pair_failure(*again.session, *source, *target);
  return after.empty() ? 0 : failed("after the reset: " + after);
}

/// HANDLE_FILE, GPU, BYTES: opens the handle that another process exported from GPU memory, copies
/// it to its own GPU through a session, and writes the checksum to stdout's neighbour
/// HANDLE_FILE.sum.
int ipc_consumer(const std::vector<std::string>& arguments) {
  const int gpu = std::stoi(arguments.at(1));
  const std::uint64_t bytes = std::stoull(arguments.at(2));
  test::IpcMemory handle{};
  std::ifstream(arguments.at(0), std::ios::binary).read(handle.bytes, sizeof handle.bytes);
  if (driver().gpus() <= gpu) return failed("no such GPU");
  const Primary primary(driver(), gpu);
  Pointer imported = 0;
  if (const int code = driver().ipc_open(&imported, handle, 1); code != 0) {
    return failed("cuIpcOpenMemHandle: " + std::to_string(code));
  }
  std::string failure;
  {
    Live live;
    if (!live.session) return failed(live.failure);
    auto source = live.session->adopt(DevicePointer{imported}, bytes);
    auto target = live.session->allocate(static_cast<std::uint32_t>(gpu), bytes);
    if (!source.ok()) return failed("adopting: " + to_string(source.error()));
    if (!target.ok()) return failed("allocating: " + to_string(target.error()));
    std::fprintf(stderr, "kind: %s\n", std::string(to_string(source->kind())).c_str());
    const Outcome outcome =
        live.session->transfer(source->place(), target->place(), within(peer_limit));
    if (!outcome.ok()) {
      failure = why(outcome);
    } else {
      const auto sum = live.session->checksum(target->place());
      if (!sum.ok()) return failed("no checksum");
      std::ofstream(arguments.at(0) + ".sum") << *sum;
      std::fprintf(stderr, "direct %llu, staged %llu\n",
                   static_cast<unsigned long long>(outcome.receipt.bytes[Carriage::direct]),
                   static_cast<unsigned long long>(outcome.receipt.bytes[Carriage::staged]));
    }
  }
  (void)driver().ipc_close(imported);
  return failure.empty() ? 0 : failed(failure);
}

}  // namespace nobounce::device
