// Loads many files into GPU memory as one batch, shows the progress, and says how each travelled.
//   load_shards live FILE...          on this machine
//   load_shards workstation FILE...   on a software machine, which needs no GPU
#include <iostream>
#include <string_view>
#include <vector>

#include <nobounce/session.hpp>
#include <nobounce/software_machine.hpp>

namespace nb = nobounce;

nb::Result<nb::HostPointer> open_host(std::string_view name) {
  if (name == "live") return nb::live_host();
  const nb::Result<nb::Machine> machine = nb::software_machine_description(name);
  if (!machine.ok()) return machine.error();
  std::cout << "software machine: times mean nothing\n";
  return nb::software_machine(*machine);
}

int fail(const nb::Error& error) {
  std::cerr << to_string(error) << '\n';
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) return std::cerr << "usage: load_shards live|workstation FILE...\n", 2;
  const nb::Result<nb::HostPointer> host = open_host(argv[1]);
  if (!host.ok()) return fail(host.error());
  nb::Result<nb::Session> session = nb::Session::open(**host);
  if (!session.ok()) return fail(session.error());

  // One region holds all shards, each at a multiple of 4 KiB, where direct storage wants them.
  std::vector<nb::File> files;
  std::vector<std::uint64_t> offsets;
  std::uint64_t total_bytes = 0;
  for (int i = 2; i < argc; ++i) {
    nb::Result<nb::File> file = session->open_file(argv[i]);
    if (!file.ok()) return fail(file.error());
    offsets.push_back(total_bytes);
    total_bytes += (file->length_bytes() + 4095) / 4096 * 4096;
    files.push_back(std::move(*file));
  }
  nb::Result<nb::Region> memory = session->allocate(0, total_bytes);
  if (!memory.ok()) return fail(memory.error());

  std::vector<nb::TransferRequest> requests;
  for (std::size_t i = 0; i < files.size(); ++i)
    requests.push_back({files[i].place(), memory->place(offsets[i], files[i].length_bytes())});
  constexpr std::uint64_t second_ns = 1'000'000'000;
  nb::Result<nb::Batch> batch = session->start_batch(requests, {.deadline_ns = 60 * second_ns});
  if (!batch.ok()) return fail(batch.error());
  while (!batch->wait(second_ns / 10))
    std::cout << batch->progress_bytes() << " of " << total_bytes << " bytes\n";

  for (std::size_t i = 0; i < files.size(); ++i) {
    const nb::Outcome& outcome = *batch->outcome(i);
    const nb::CarriageBytes& bytes = outcome.receipt.bytes;
    std::cout << files[i].path() << ": direct " << bytes[nb::Carriage::direct]
              << ", bounced in the GPU " << bytes[nb::Carriage::device_bounced] << ", staged "
              << bytes[nb::Carriage::staged];
    if (!outcome.ok()) std::cout << "; " << to_string(*outcome.error);
    std::cout << '\n';
  }
  const nb::BatchReceipt all = batch->receipt();
  std::cout << all.transfers_done << " of " << all.transfers() << " files, " << all.bytes.total()
            << " bytes\n";
  return all.transfers_done == all.transfers() ? 0 : 1;
}
