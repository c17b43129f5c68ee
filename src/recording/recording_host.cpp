// Takes notes of files and variables; passes the rest on.
#include "recording/recording_host.hpp"

#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

namespace nobounce::recording {
namespace {

/// The lines that contain one of the words.
std::string lines_with(std::string_view text, std::initializer_list<std::string_view> words) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    for (const std::string_view word : words) {
      if (line.find(word) == std::string_view::npos) continue;
      kept += std::string(line) + "\n";
      break;
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return kept;
}

/// What the tool looks for in files that are long: symbols, kernel options, the first processor.
std::string reduced(std::string_view path, std::string text) {
  if (path == "/proc/kallsyms") return lines_with(text, {" p2pdma_pgmap_ops"});
  if (path.substr(0, 13) == "/boot/config-") {
    return "\n" + lines_with(text, {"CONFIG_PCI_P2PDMA", "CONFIG_DMABUF", "CONFIG_IOMMU",
                                    "CONFIG_INTEL_IOMMU", "CONFIG_AMD_IOMMU"});
  }
  if (path == "/proc/cpuinfo") {
    const std::size_t end = text.find("\n\n");
    if (end != std::string::npos) text.resize(end + 1);
  }
  return text;
}

class RecordingFiles final : public system::Files {
 public:
  RecordingFiles(system::Files& inner, FileRecord& record) : inner_(inner), record_(record) {}

  Result<std::string> read(std::string_view path) override {
    Result<std::string> text = inner_.read(path);
    const std::scoped_lock lock(mutex_);
    if (text) {
      record_.texts[std::string(path)] = reduced(path, *text);
    } else {
      note_failure(path, text.error());
    }
    return text;
  }
  Result<std::vector<std::string>> list(std::string_view path) override {
    Result<std::vector<std::string>> names = inner_.list(path);
    const std::scoped_lock lock(mutex_);
    if (names) {
      record_.folders[std::string(path)] = *names;
    } else {
      note_failure(path, names.error());
    }
    return names;
  }
  Result<std::string> read_link(std::string_view path) override { return inner_.read_link(path); }
  Result<std::string> real_path(std::string_view path) override {
    Result<std::string> real = inner_.real_path(path);
    const std::scoped_lock lock(mutex_);
    if (!real) {
      note_failure(path, real.error());
    } else if (*real == path) {
      note_present(path);
    } else {
      record_.links[std::string(path)] = *real;
    }
    return real;
  }
  bool exists(std::string_view path) override {
    const bool there = inner_.exists(path);
    const std::scoped_lock lock(mutex_);
    if (there) note_present(path);
    return there;
  }

 private:
  /// What is not there need not be written down: everything else is not there either.
  void note_failure(std::string_view path, const Error& error) {
    if (error.code == ENOENT || error.code == ENOTDIR || error.origin != ErrorOrigin::os) return;
    record_.unreadable[std::string(path)] = static_cast<int>(error.code);
  }
  void note_present(std::string_view path) {
    if (record_.texts.count(path) == 0) record_.folders.try_emplace(std::string(path));
  }

  system::Files& inner_;
  FileRecord& record_;
  std::mutex mutex_;
};

class RecordingEnvironment final : public system::Environment {
 public:
  RecordingEnvironment(system::Environment& inner, Recording& recording)
      : inner_(inner), recording_(recording) {}
  std::optional<std::string> get(std::string_view name) override {
    std::optional<std::string> value = inner_.get(name);
    if (value.has_value()) recording_.environment[std::string(name)] = *value;
    return value;
  }
  Status set(std::string_view name, std::string_view value) override {
    return inner_.set(name, value);
  }

 private:
  system::Environment& inner_;
  Recording& recording_;
};

class RecordingHost final : public system::Host {
 public:
  RecordingHost(system::Host& inner, Recording& recording)
      : inner_(inner),
        files_(inner.files(), recording.files),
        environment_(inner.environment(), recording) {}

  HostKind kind() const override { return inner_.kind(); }
  std::string_view name() const override { return inner_.name(); }
  Result<system::Cuda*> cuda() override { return inner_.cuda(); }
  Result<system::Nvml*> nvml() override { return inner_.nvml(); }
  Result<system::Cufile*> cufile() override { return inner_.cufile(); }
  Result<system::Verbs*> verbs() override { return inner_.verbs(); }
  Result<system::Network*> network() override { return inner_.network(); }
  Result<system::Pci*> pci() override { return inner_.pci(); }
  system::Files& files() override { return files_; }
  system::Storage& storage() override { return inner_.storage(); }
  system::Memory& memory() override { return inner_.memory(); }
  system::Workers& workers() override { return inner_.workers(); }
  system::Counters& counters() override { return inner_.counters(); }
  system::Environment& environment() override { return environment_; }
  system::Process& process() override { return inner_.process(); }
  system::Clock& clock() override { return inner_.clock(); }
  system::Entropy& entropy() override { return inner_.entropy(); }

 private:
  system::Host& inner_;
  RecordingFiles files_;
  RecordingEnvironment environment_;
};

}  // namespace

std::unique_ptr<system::Host> make_recording_host(system::Host& inner, Recording& recording) {
  return std::make_unique<RecordingHost>(inner, recording);
}

void note_place(system::Host& host, const std::string& path, Recording& recording) {
  Result<std::string> real = host.storage().real_path(path);
  if (real) {
    recording.places[path] = *real;
  } else {
    recording.missing_places[path] = static_cast<int>(real.error().code);
  }
}

}  // namespace nobounce::recording
