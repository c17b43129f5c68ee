// Reads captured text in chunks.
#include "cli/capture_input.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "cli/cause_hint.hpp"

namespace nobounce::cli {

namespace {

constexpr std::size_t chunk_bytes = 1u << 20;

Error with_capture_remedy(Error error, const std::string& path, CaptureUse use) {
  const bool topology = use == CaptureUse::topology;
  error.attempted = "read " + path;
  if (error.code == EISDIR) {
    error.remedy = topology ? "--from takes one file; nobounce explain " + path + "/* reads several"
                            : "name its files: nobounce explain " + path + "/*";
  } else if (error.code == EACCES || error.code == EPERM) {
    return error;
  } else if (topology) {
    error.remedy =
        "name a file with nvidia-smi topo -m, an NCCL topology (XML), lspci -tv or a recording; - "
        "is standard input";
  } else {
    error.remedy = cause_hint(path);
    if (error.remedy.empty()) {
      error.remedy =
          "name a file with captured text, - for standard input, or a cause of nobounce explain "
          "--list";
    }
  }
  return error;
}

Status read_standard_input(captures::TextReader& reader, CaptureUse use) {
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
                 .remedy = use == CaptureUse::topology
                               ? "nvidia-smi topo -m | nobounce topo --from -"
                               : "nvidia-smi topo -m | nobounce explain -"};
  }
  return {};
}

Status read_captured_file(system::Host& host, const std::string& path, captures::TextReader& reader,
                          CaptureUse use) {
  system::Storage& storage = host.storage();
  const Result<system::FileHandle> file = storage.open(path, {});
  if (!file.ok()) return with_capture_remedy(file.error(), path, use);
  std::vector<char> buffer(chunk_bytes);
  std::uint64_t offset = 0;
  Status status;
  while (status.ok()) {
    const Result<std::size_t> got = storage.read(*file, reinterpret_cast<std::byte*>(buffer.data()),
                                                 buffer.size(), FileOffset{offset});
    if (!got.ok()) {
      status = with_capture_remedy(got.error(), path, use);
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

Status read_capture(system::Host& host, const std::string& path, captures::TextReader& reader,
                    CaptureUse use) {
  reader.begin(path);
  Status status =
      path == "-" ? read_standard_input(reader, use) : read_captured_file(host, path, reader, use);
  if (status.ok()) reader.end();
  return status;
}

}  // namespace nobounce::cli
