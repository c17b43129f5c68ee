// Reads captured text in chunks.
#include "cli/capture_input.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace nobounce::cli {

namespace {

constexpr std::size_t chunk_bytes = 1u << 20;

Status read_standard_input(captures::TextReader& reader) {
  std::vector<char> buffer(chunk_bytes);
  while (true) {
    const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), stdin);
    if (got > 0) reader.feed({buffer.data(), got});
    if (got < buffer.size()) break;
  }
  if (std::ferror(stdin) != 0) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read standard input",
                 .detail = "it cannot be read",
                 .remedy = "nvidia-smi topo -m | nobounce explain -"};
  }
  return {};
}

Status read_captured_file(system::Host& host, const std::string& path,
                          captures::TextReader& reader) {
  system::Storage& storage = host.storage();
  const Result<system::FileHandle> file = storage.open(path, {});
  if (!file.ok()) {
    Error error = file.error();
    if (error.remedy.empty())
      error.remedy =
          "name a file with captured text, - for standard input, or a cause of "
          "nobounce explain --list";
    return error;
  }
  std::vector<char> buffer(chunk_bytes);
  std::uint64_t offset = 0;
  Status status;
  while (status.ok()) {
    const Result<std::size_t> got = storage.read(*file, reinterpret_cast<std::byte*>(buffer.data()),
                                                 buffer.size(), FileOffset{offset});
    if (!got.ok()) {
      Error error = got.error();
      error.remedy = "of a pipe: COMMAND | nobounce explain -; of a directory: its files";
      status = error;
      break;
    }
    if (*got == 0) break;
    reader.feed({buffer.data(), *got});
    offset += *got;
  }
  (void)storage.close(*file);
  return status;
}

}  // namespace

Status read_capture(system::Host& host, const std::string& path, captures::TextReader& reader) {
  reader.begin(path);
  Status status =
      path == "-" ? read_standard_input(reader) : read_captured_file(host, path, reader);
  if (status.ok()) reader.end();
  return status;
}

}  // namespace nobounce::cli
