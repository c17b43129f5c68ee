// Moves a file into GPU memory on a software machine and says how it travelled.
#include <cstdio>

#include <nobounce/session.hpp>
#include <nobounce/software_machine.hpp>

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "/etc/os-release";
  auto machine = nobounce::software_machine_description("workstation");
  auto host = nobounce::software_machine(*machine);  // on a GPU machine: nobounce::live_host()
  auto session = nobounce::Session::open(**host);
  auto file = session->open_file(path);
  if (!file.ok()) return std::puts(to_string(file.error()).c_str()), 1;
  auto memory = session->allocate(0, file->length_bytes());
  const nobounce::Outcome outcome = session->transfer(file->place(), memory->place());
  const nobounce::CarriageBytes& bytes = outcome.receipt.bytes;
  std::printf("direct %llu, bounced inside the GPU %llu, staged %llu\n",
              static_cast<unsigned long long>(bytes[nobounce::Carriage::direct]),
              static_cast<unsigned long long>(bytes[nobounce::Carriage::device_bounced]),
              static_cast<unsigned long long>(bytes[nobounce::Carriage::staged]));
  return outcome.ok() ? 0 : 1;
}
