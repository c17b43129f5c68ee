// The parent never touches CUDA: it forks a child, reads what the child says to each sequence, and
// starts another behind a sequence that ended its child.
#include "conformance/runner.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "fabric/soft_host.hpp"
#include "system/live_host.hpp"

namespace nobounce::conformance {

namespace {

void send(int descriptor, char kind, const std::string& text) {
  std::string line(1, kind);
  for (const char c : text) line += c == '\n' ? ' ' : c;
  line += '\n';
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::write(descriptor, line.data() + sent, line.size() - sent);
    if (count <= 0) ::_exit(3);
    sent += static_cast<std::size_t>(count);
  }
}

/// A udev record for the drive under a folder, removed at the end unless it was there before.
class UdevRecord {
 public:
  explicit UdevRecord(const std::string& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) return;
    const std::filesystem::path data = "/run/udev/data";
    path_ = data / ("b" + std::to_string(major(status.st_dev)) + ":" +
                    std::to_string(minor(status.st_dev)));
    if (std::filesystem::exists(path_)) return;
    std::error_code ignored;
    had_folder_ = std::filesystem::exists("/run/udev");
    std::filesystem::create_directories(data, ignored);
    std::ofstream(path_) << "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n";
    made_ = std::filesystem::exists(path_);
  }
  ~UdevRecord() {
    std::error_code ignored;
    if (made_) std::filesystem::remove(path_, ignored);
    if (made_ && !had_folder_) std::filesystem::remove_all("/run/udev", ignored);
  }
  UdevRecord(const UdevRecord&) = delete;
  UdevRecord& operator=(const UdevRecord&) = delete;

 private:
  std::filesystem::path path_;
  bool made_ = false;
  bool had_folder_ = false;
};

std::unique_ptr<system::Host> make_host(const RunOptions& options, const Needs& needs) {
  if (options.soft == nullptr) {
    for (const auto& [name, value] : needs.environment) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    return system::make_live_host();
  }
  Machine machine = *options.soft;
  machine.udev = machine.udev || needs.udev;
  for (const auto& [name, value] : needs.environment) machine.environment[name] = value;
  auto host = fabric::SoftHost::create(machine);
  if (!host.ok()) {
    std::fprintf(stderr, "%s\n", to_string(host.error()).c_str());
    ::_exit(4);
  }
  return std::move(host).value();
}

bool has_adapter(Run& run) {
  if (!run.traced_verbs) return false;
  system::Verbs& table = run.quiet_verbs();
  verbs::ibv_device** devices = nullptr;
  int count = 0;
  if (table.get_device_list(&devices, &count) != 0) return false;
  (void)table.free_device_list(devices);
  return count > 0;
}

std::string reason_to_skip(Run& run, const Needs& needs, int gpus) {
  if (needs.verbs && !has_adapter(run)) return "no adapter";
  if (needs.gpus == 0) return {};
  if (!run.traced_cuda || gpus == 0) return "no GPU";
  if (gpus < needs.gpus) return "needs " + std::to_string(needs.gpus) + " GPUs, there is 1";
  if (needs.cufile && !run.traced_cufile) return "no libcufile";
  if (!run.traced_nvml) return "no NVML";
  return {};
}

void run_one(Run& run, const Sequence& sequence) {
  if (sequence.needs.gpus == 0) return sequence.body(run);
  system::Cuda& cuda = run.quiet();
  const bool with_context =
      sequence.needs.start == Start::context || sequence.needs.start == Start::alone;
  if (with_context) {
    (void)cuda.device_primary_ctx_retain(&run.context, 0);
    (void)cuda.ctx_push_current(run.context);
  }
  sequence.body(run);
  // Whatever it left on the stack is taken off, so that the next one finds an empty one.
  cuda::CUcontext popped = nullptr;
  for (int i = 0; i < 16 && cuda.ctx_get_current(&popped) == cuda::success && popped != nullptr;
       ++i) {
    (void)cuda.ctx_pop_current(&popped);
  }
  if (with_context) (void)cuda.device_primary_ctx_release(0);
}

struct Child {
  const RunOptions& options;
  const std::vector<const Sequence*>& sequences;
  int descriptor;

  [[noreturn]] void live(std::size_t first, std::size_t last) {
    const int sink = descriptor;
    Trace trace([](void* to, const std::string& line) { send(*static_cast<int*>(to), 'L', line); },
                &descriptor);
    auto host = make_host(options, sequences[first]->needs);
    Run run(*host, trace, options.folder);
    const bool fresh = sequences[first]->needs.start == Start::fresh;
    int gpus = run.traced_cuda ? 1 : 0;
    if (run.traced_cuda && sequences[first]->needs.gpus > 0 &&
        (!fresh || sequences[first]->needs.gpus > 1)) {
      gpus = 0;
      if (run.quiet().init(0) == cuda::success) (void)run.quiet().device_get_count(&gpus);
      // Keeps the context between sequences, each of which retains and releases it once more.
      cuda::CUcontext kept = nullptr;
      if (gpus > 0 && !fresh) (void)run.quiet().device_primary_ctx_retain(&kept, 0);
    }
    for (std::size_t i = first; i < last; ++i) {
      send(sink, 'S', sequences[i]->name);
      const std::string why = reason_to_skip(run, sequences[i]->needs, gpus);
      if (why.empty()) {
        run_one(run, *sequences[i]);
      } else {
        send(sink, 'K', why);
      }
      send(sink, 'E', "");
    }
    ::_exit(0);  // no destructors: what a sequence left behind must not end in their hands
  }
};

/// What a child said: lines split at newlines, read with a deadline.
class Reader {
 public:
  explicit Reader(int descriptor) : descriptor_(descriptor) {}
  enum class Got : std::uint8_t { line, end, late };
  Got next(std::string& line, int milliseconds) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    for (;;) {
      if (const std::size_t at = buffer_.find('\n'); at != std::string::npos) {
        line = buffer_.substr(0, at);
        buffer_.erase(0, at + 1);
        return Got::line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return Got::late;
      pollfd poll_one{descriptor_, POLLIN, 0};
      if (::poll(&poll_one, 1, static_cast<int>(left.count())) <= 0) continue;
      char chunk[4096];
      const ssize_t count = ::read(descriptor_, chunk, sizeof chunk);
      if (count <= 0) return Got::end;
      buffer_.append(chunk, static_cast<std::size_t>(count));
    }
  }

 private:
  int descriptor_;
  std::string buffer_;
};

/// Runs [first, last) in one child. Returns how many of them were answered: all, or up to and with
/// the one that ended the child.
std::size_t run_child(const RunOptions& options, const std::vector<const Sequence*>& sequences,
                      std::size_t first, std::size_t last, std::vector<Answer>& answers) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe_ends[0]);
    Child{options, sequences, pipe_ends[1]}.live(first, last);
  }
  ::close(pipe_ends[1]);
  Reader reader(pipe_ends[0]);
  std::size_t done = 0;
  bool open = false;
  std::string line;
  auto got = Reader::Got::line;
  while ((got = reader.next(line, options.seconds_per_sequence * 1000)) == Reader::Got::line) {
    const std::string text = line.substr(1);
    if (line[0] == 'S') {
      answers.push_back({text, {}, {}});
      open = true;
    } else if (line[0] == 'L' && open) {
      answers.back().lines.push_back(text);
    } else if (line[0] == 'K' && open) {
      answers.back().skipped = text;
    } else if (line[0] == 'E') {
      open = false;
      ++done;
    }
  }
  if (got == Reader::Got::late) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe_ends[0]);
  if (done == last - first) return done;
  if (!open) {  // before its first sequence, or between two
    answers.push_back({sequences[first + done]->name, {}, {}});
  }
  answers.back().lines.push_back(got == Reader::Got::late ? "(no answer in time)"
                                 : WIFSIGNALED(status)
                                     ? "(ended by signal " + std::to_string(WTERMSIG(status)) + ")"
                                     : "(exited with " + std::to_string(WEXITSTATUS(status)) + ")");
  return done + 1;
}

bool shares_process(const Sequence& sequence) {
  return sequence.needs.start == Start::context || sequence.needs.start == Start::bare;
}

/// Asked in a child as well: the parent touches no driver.
std::map<std::string, std::string> read_facts(const RunOptions& options) {
  std::map<std::string, std::string> facts;
  const Sequence ask{"facts",
                     [&](Run& run) {
                       const auto say = [&](const std::string& key, const std::string& value) {
                         run.note(key + "=" + value);
                       };
                       if (auto kernel = run.host.files().read("/proc/sys/kernel/osrelease");
                           kernel.ok() && run.traced_verbs) {
                         say("kernel", kernel->substr(0, kernel->find('\n')));
                       }
                       int number = 0;
                       if (!run.traced_cuda) return;
                       if (run.quiet().driver_get_version(&number) == 0) {
                         say("cuda", std::to_string(number));
                       }
                       if (run.quiet().init(0) == 0 && run.quiet().device_get_count(&number) == 0) {
                         say("gpus", std::to_string(number));
                         char name[96] = "";
                         (void)run.quiet().device_get_name(name, sizeof name, 0);
                         say("gpu", name);
                       }
                       if (auto table = run.host.nvml(); table.ok() && (*table)->init() == 0) {
                         char text[96] = "";
                         (void)(*table)->system_get_driver_version(text, sizeof text);
                         say("driver", text);
                       }
                       if (auto table = run.host.cufile(); table.ok()) {
                         (void)(*table)->get_version(&number);
                         say("libcufile", std::to_string(number));
                       }
                     },
                     {.start = Start::fresh, .gpus = 0}};
  std::vector<Answer> answers;
  (void)run_child(options, {&ask}, 0, 1, answers);
  facts["kind"] = options.soft == nullptr ? "live" : "soft";
  for (const std::string& line : answers.empty() ? std::vector<std::string>{} : answers[0].lines) {
    const std::size_t equals = line.find('=');
    if (line.substr(0, 2) == "  " && equals != std::string::npos) {
      facts[line.substr(2, equals - 2)] = line.substr(equals + 1);
    }
  }
  return facts;
}

}  // namespace

Answers run_all(const Catalogue& catalogue, const RunOptions& options) {
  Answers result;
  result.facts = read_facts(options);
  std::vector<const Sequence*> chosen;
  for (const Sequence& sequence : catalogue.sequences()) {
    if (sequence.name.compare(0, options.only.size(), options.only) == 0) {
      chosen.push_back(&sequence);
    }
  }
  // Those that can share a process stand together, or each of the others would cost two more.
  std::stable_partition(chosen.begin(), chosen.end(),
                        [](const Sequence* sequence) { return shares_process(*sequence); });
  for (std::size_t i = 0; i < chosen.size();) {
    const Needs& needs = chosen[i]->needs;
    std::size_t last = i + 1;
    while (shares_process(*chosen[i]) && last < chosen.size() && shares_process(*chosen[last])) {
      ++last;
    }
    if (needs.udev && options.soft == nullptr && !options.may_write_udev) {
      result.sequences.push_back({chosen[i]->name, "needs a udev record (--may-write-udev)", {}});
      ++i;
      continue;
    }
    std::unique_ptr<UdevRecord> record;
    if (needs.udev && options.soft == nullptr) {
      record = std::make_unique<UdevRecord>(options.folder);
    }
    i += run_child(options, chosen, i, last, result.sequences);
  }
  return result;
}

}  // namespace nobounce::conformance
