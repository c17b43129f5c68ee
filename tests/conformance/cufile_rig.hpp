// Files and handles for cuFile sequences. Files are opened through the seam, so that a software
// machine knows on which of its drives they lie.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

/// A file with seeded bytes, removed at the end.
class TestFile {
 public:
  TestFile(Run& run, std::size_t bytes, const std::string& name = "file")
      : run_(run), path_(run.folder + "/" + name), content_(pattern(bytes, 40)) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(content_.data()),
               static_cast<std::streamsize>(content_.size()));
  }
  ~TestFile() {
    for (const system::FileHandle file : open_) (void)run_.host.storage().close(file);
    ::unlink(path_.c_str());
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;

  /// A descriptor, or -1.
  [[nodiscard]] int open(system::FileAccess access = system::FileAccess::read_write,
                         bool direct = false) {
    system::OpenOptions options;
    options.access = access;
    options.direct = direct;
    const auto file = run_.host.storage().open(path_, options);
    if (!file.ok()) return -1;
    open_.push_back(*file);
    return file->descriptor;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::byte>& content() const { return content_; }
  /// What the file holds now.
  void note(const char* name) {
    std::ifstream file(path_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    run_.bytes(name, std::as_bytes(std::span(text.data(), text.size())));
  }

 private:
  Run& run_;
  std::string path_;
  std::vector<std::byte> content_;
  std::vector<system::FileHandle> open_;
};

[[nodiscard]] inline cufile::CUfileDescr_t description_of(int descriptor, int type = 1) {
  cufile::CUfileDescr_t description{};
  description.type = type;
  description.handle.fd = descriptor;
  return description;
}

/// CUDA started and a context current: cuFile works on the current one.
inline void start_cuda(Run& run) {
  (void)run.quiet().init(0);
  (void)run.quiet().device_primary_ctx_retain(&run.context, 0);
  (void)run.quiet().ctx_push_current(run.context);
}

[[nodiscard]] inline Needs cufile_needs() {
  Needs needs;
  needs.start = Start::fresh;
  needs.cufile = true;
  return needs;
}

/// Compatibility mode on a drive that udev knows: every request is staged, and works.
[[nodiscard]] inline Needs compat_needs() {
  Needs needs = cufile_needs();
  needs.udev = true;
  needs.environment = {{"CUFILE_FORCE_COMPAT_MODE", "true"}};
  return needs;
}

}  // namespace nobounce::conformance
