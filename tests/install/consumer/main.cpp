// What a user's program does with an installed nobounce: a batch on a software machine, checked.
// Every public header is included (all.hpp is written by the test from what was installed).
#include <cstdio>
#include <vector>

#include "all.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto machine = nobounce::software_machine_description("workstation");
  if (!machine.ok()) return 3;
  auto host = nobounce::software_machine(*machine);
  if (!host.ok()) return 4;
  auto session = nobounce::Session::open(**host);
  if (!session.ok()) return 5;
  auto file = session->open_file(argv[1]);
  if (!file.ok()) return std::puts(to_string(file.error()).c_str()), 6;
  auto memory = session->allocate(1, file->length_bytes());
  if (!memory.ok()) return 7;
  const std::vector<nobounce::TransferRequest> requests = {{file->place(), memory->place()}};
  auto batch = session->start_batch(requests);
  if (!batch.ok() || !batch->wait()) return 8;
  const nobounce::BatchReceipt receipt = batch->receipt();
  std::printf("%llu of %llu bytes arrived, %llu of them staged\n",
              static_cast<unsigned long long>(receipt.bytes.total()),
              static_cast<unsigned long long>(file->length_bytes()),
              static_cast<unsigned long long>(receipt.bytes[nobounce::Carriage::staged]));
  return receipt.bytes.total() == file->length_bytes() ? 0 : 9;
}
