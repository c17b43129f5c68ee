// The pieces of code in docs/guide/library.md, compiled and run on a software machine. A test holds
// the guide against this file, line by line.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include <nobounce/receipt_text.hpp>
#include <nobounce/session.hpp>
#include <nobounce/software_machine.hpp>

using namespace nobounce;

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "not as the guide says: " << what << '\n';
  ++failures;
}

HostPointer open_host() {
  return software_machine(*software_machine_description("workstation")).value();
}

void explain(const Receipt& receipt) {
  for (std::uint8_t i = 0; i < receipt.cause_count; ++i) {
    const CauseRow& cause = cause_row(receipt.causes[i]);
    std::cout << cause.id << ": " << cause.sentence << "; " << cause.remedy << '\n';
  }
}

void save_weights(Session& session, const Region& weights, const std::string& path) {
  Result<File> file =
      session.open_file(path, {.mode = FileMode::replace, .length_bytes = weights.length_bytes()});
  if (!file.ok()) return expect(false, "open_file");
  const Outcome outcome = session.transfer(weights.place(), file->place());
  if (outcome.ok() && file->commit(/*durable=*/true).ok()) std::cout << "saved\n";
  expect(outcome.ok(), "save");
}

void wait_for_a_while(Session& session, const File& file, const Region& memory) {
  constexpr std::uint64_t millisecond_ns = 1'000'000;
  Result<Transfer> transfer =
      session.start(file.place(), memory.place(), {.deadline_ns = 2000 * millisecond_ns});
  if (!transfer.ok()) return expect(false, "start");
  std::optional<Outcome> outcome = transfer->wait(100 * millisecond_ns);
  if (!outcome.has_value()) {
    transfer->cancel();
    outcome = transfer->wait();
  }
  std::cout << outcome->receipt.bytes.total() << " bytes arrived\n";
  expect(outcome->receipt.state == TransferState::done ||
             outcome->receipt.state == TransferState::cancelled,
         "start and wait");
}

void load_parts(Session& session, const File& file, const Region& memory) {
  const std::uint64_t half = file.length_bytes() / 2;
  const std::uint64_t rest = file.length_bytes() - half;
  const std::vector<TransferRequest> requests = {
      {file.place(0, half), memory.place(0, half)},
      {file.place(half, rest), memory.place(half, rest), Policy::staged_only},
  };
  Result<Batch> batch = session.start_batch(requests, {.deadline_ns = 60'000'000'000});
  if (!batch.ok()) return expect(false, "start_batch");
  if (!batch->wait()) return;
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const Outcome& outcome = *batch->outcome(i);
    if (!outcome.ok()) std::cerr << to_string(*outcome.error) << '\n';
  }
  const BatchReceipt all = batch->receipt();
  expect(all.transfers_done == 2 && all.bytes[Carriage::staged] == rest, "batch");
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "/etc/os-release";
  const HostPointer host = open_host();
  Result<Session> session = Session::open(*host, {.warn_on_close = false});
  if (!session.ok()) return 1;
  Result<File> file = session->open_file(path);
  if (!file.ok()) return 1;
  Result<Region> memory = session->allocate(0, file->length_bytes());
  if (!memory.ok()) return 1;

  const Outcome outcome =
      session->transfer(file->place(), memory->place(), {.policy = Policy::direct_required});
  std::cout << to_text(outcome.receipt, session->names_of(outcome.receipt));
  if (outcome.receipt.state == TransferState::refused) explain(outcome.receipt);
  std::ofstream("/dev/null") << to_json_text(outcome.receipt, session->names_of(outcome.receipt));
  expect(outcome.ok(), "transfer");

  wait_for_a_while(*session, *file, *memory);
  load_parts(*session, *file, *memory);
  char folder[] = "/tmp/nobounce-guide-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  const std::string target = std::string(folder) + "/weights.bin";
  save_weights(*session, *memory, target);
  std::remove(target.c_str());
  std::remove(folder);
  return failures == 0 ? 0 : 1;
}
