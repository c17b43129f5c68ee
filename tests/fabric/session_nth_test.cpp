// Every call through the seam is failed once, for each verb of a session: no
// leak, no hang, an honest error.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "evidence/witness.hpp"
#include "proof/prove.hpp"
#include "support/around_host.hpp"
#include "support/soft_session.hpp"
#include "system/counted_host.hpp"
#include "system/faulty_host.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::TemporaryDirectory;
using test::write_file;

struct Verb {
  const char* name;
  /// Does the verb; returns the error it ended with, if any.
  std::function<std::optional<Error>(system::Host&, const TemporaryDirectory&)> run;
  std::uint64_t runs_max = 0;  ///< of verbs with very many calls: not each is failed; 0: each
};

void PrintTo(const Verb& verb, std::ostream* stream) {
  *stream << verb.name;
}

SessionOptions options() {
  SessionOptions chosen = test::SoftSession::quiet();
  chosen.publish_ledger = true;
  return chosen;
}

std::optional<Error> copy_in(system::Host& host, const TemporaryDirectory& directory,
                             Policy policy) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<File> file = session->open_file(directory.file("source"));
  if (!file.ok()) return file.error();
  Result<Region> region = session->allocate(0, file->length_bytes());
  if (!region.ok()) return region.error();
  const Outcome outcome = session->transfer(file->place(), region->place(), {.policy = policy});
  EXPECT_LE(outcome.receipt.bytes.total(), file->length_bytes());
  if (!outcome.ok()) return outcome.error;
  EXPECT_EQ(outcome.receipt.bytes.total(), file->length_bytes());
  return std::nullopt;
}

std::optional<Error> copy_out(system::Host& host, const TemporaryDirectory& directory) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<Region> region = session->allocate(0, 100001);
  if (!region.ok()) return region.error();
  if (Status filled = session->fill_pattern(region->place(), 3); !filled.ok())
    return filled.error();
  Result<File> file = session->open_file(directory.file("target"),
                                         {.mode = FileMode::replace, .length_bytes = 100001});
  if (!file.ok()) return file.error();
  const Outcome outcome = session->transfer(region->place(), file->place());
  if (!outcome.ok()) return outcome.error;
  const Result<std::string> sum = session->checksum(file->place());
  if (!sum.ok()) return sum.error();
  if (Status committed = file->commit(true); !committed.ok()) return committed.error();
  return std::nullopt;
}

std::optional<Error> through_host(system::Host& host, const TemporaryDirectory&) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<Region> pinned = session->allocate_host(50000);
  if (!pinned.ok()) return pinned.error();
  Result<Region> first = session->allocate(0, 50000);
  if (!first.ok()) return first.error();
  Result<Region> second = session->allocate(1, 50000);
  if (!second.ok()) return second.error();
  if (Outcome up = session->transfer(pinned->place(), first->place()); !up.ok()) return up.error;
  if (Outcome over = session->transfer(first->place(), second->place()); !over.ok())
    return over.error;
  if (Outcome down = session->transfer(second->place(), pinned->place()); !down.ok())
    return down.error;
  return std::nullopt;
}

std::optional<Error> check(system::Host& host, const TemporaryDirectory& directory) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<std::vector<Finding>> findings =
      session->check_storage(directory.file("source"), 0, false);
  if (!findings.ok()) return findings.error();
  return std::nullopt;
}

std::optional<Error> cancel(system::Host& host, const TemporaryDirectory& directory) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<File> file = session->open_file(directory.file("source"));
  if (!file.ok()) return file.error();
  Result<Region> region = session->allocate(0, file->length_bytes());
  if (!region.ok()) return region.error();
  Result<Transfer> transfer =
      session->start(file->place(), region->place(), {.policy = Policy::staged_only});
  if (!transfer.ok()) return transfer.error();
  transfer->cancel();
  const std::optional<Outcome> outcome = transfer->wait();
  EXPECT_TRUE(outcome.has_value());
  if (outcome.has_value() && !outcome->ok() && outcome->receipt.state != TransferState::cancelled) {
    return outcome->error;
  }
  return std::nullopt;
}

/// Ends with the first error of a batch of three; the other two end by
/// themselves.
std::optional<Error> batch(system::Host& host, const TemporaryDirectory& directory) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<File> file = session->open_file(directory.file("source"));
  if (!file.ok()) return file.error();
  Result<Region> region = session->allocate(0, 3 * file->length_bytes());
  if (!region.ok()) return region.error();
  std::vector<TransferRequest> requests;
  for (std::uint64_t i = 0; i < 3; ++i) {
    requests.push_back({file->place(),
                        region->place(i * file->length_bytes(), file->length_bytes()),
                        i == 1 ? Policy::staged_only : Policy::direct_preferred});
  }
  Result<Batch> transfers = session->start_batch(requests, {.at_once = 2});
  if (!transfers.ok()) return transfers.error();
  EXPECT_TRUE(transfers->wait());
  for (std::size_t i = 0; i < transfers->size(); ++i) {
    if (!transfers->outcome(i)->ok()) return transfers->outcome(i)->error;
    EXPECT_EQ(transfers->outcome(i)->receipt.bytes.total(), file->length_bytes());
  }
  return std::nullopt;
}

std::optional<Error> copy_between_gpus(system::Host& host, const TemporaryDirectory&,
                                       Policy policy) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<Region> source = session->allocate(0, 300001);
  if (!source.ok()) return source.error();
  Result<Region> target = session->allocate(1, 300001);
  if (!target.ok()) return target.error();
  if (Status filled = session->fill_pattern(source->place(), 3); !filled.ok())
    return filled.error();
  const Outcome outcome = session->transfer(source->place(), target->place(), {.policy = policy});
  if (!outcome.ok()) return outcome.error;
  if (policy == Policy::direct_required) {
    EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 300001u);
  }
  const Result<std::string> sent = session->checksum(source->place());
  if (!sent.ok()) return sent.error();
  const Result<std::string> arrived = session->checksum(target->place());
  if (!arrived.ok()) return arrived.error();
  EXPECT_EQ(*sent, *arrived);
  return std::nullopt;
}

std::optional<Error> map_peer(system::Host& host, const TemporaryDirectory&) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<Region> region = session->allocate(1, 4096);
  if (!region.ok()) return region.error();
  const Result<DevicePointer> pointer = session->map_peer(*region, 0);
  if (!pointer.ok()) return pointer.error();
  EXPECT_EQ(*pointer, std::get<GpuMemory>(region->place()).address);
  return std::nullopt;
}

std::optional<Error> adopt(system::Host& host, const TemporaryDirectory& directory) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<Region> whole = session->allocate(0, 64 << 10);
  if (!whole.ok()) return whole.error();
  Result<Region> part =
      session->adopt(std::get<GpuMemory>(whole->place()).address.plus(4096), 20000);
  if (!part.ok()) return part.error();
  std::vector<std::byte> bytes(20000);
  Result<Region> memory = session->adopt_host(bytes.data(), bytes.size());
  if (!memory.ok()) return memory.error();
  Result<File> file = session->open_file(directory.file("source"));
  if (!file.ok()) return file.error();
  if (Outcome in = session->transfer(file->place(0, 20000), part->place()); !in.ok())
    return in.error;
  if (Outcome out = session->transfer(part->place(), memory->place()); !out.ok()) return out.error;
  std::vector<std::byte> sent = test::read_file(directory.file("source"));
  sent.resize(bytes.size());
  EXPECT_TRUE(bytes == sent);
  return std::nullopt;
}

std::optional<Error> write_in_place(system::Host& host, const TemporaryDirectory& directory) {
  Result<Session> session = Session::open(host, options());
  if (!session.ok()) return session.error();
  Result<Region> region = session->allocate(0, 100001);
  if (!region.ok()) return region.error();
  Result<File> file = session->open_file(directory.file("source"),
                                         {.mode = FileMode::in_place, .length_bytes = 100001});
  if (!file.ok()) return file.error();
  const Outcome outcome = session->transfer(region->place(), file->place());
  if (!outcome.ok()) return outcome.error;
  EXPECT_TRUE(test::has_cause(outcome.receipt, Cause::file_written_in_place));
  if (Status committed = file->commit(true); !committed.ok()) return committed.error();
  return std::nullopt;
}

/// A row of a proof fails as a whole by being unknown, and says why.
std::optional<Error> prove(system::Host& host, const proof::Subject& subject) {
  const auto counted = system::CountedHost::wrap(host);
  Result<Session> session = Session::open(*counted, options());
  if (!session.ok()) return session.error();
  evidence::Witnesses witnesses(host, counted.get());
  proof::ProveOptions chosen;
  chosen.volumes_bytes = {64 << 10, 128 << 10, 192 << 10};
  chosen.rounds = 1;
  const ProofRow row = proof::prove_row(*session, *counted, witnesses, subject, chosen);
  EXPECT_NE(row.verdict, Verdict::broken) << "no byte was lost";
  if (row.verdict == Verdict::direct) {
    EXPECT_EQ(row.known, Known::witnessed);
    return std::nullopt;
  }
  EXPECT_FALSE(row.missing.empty() && row.causes.empty() && row.contradictions.empty());
  return Error{.origin = ErrorOrigin::session,
               .attempted = "prove a row",
               .detail = row.missing.empty() ? "not direct" : row.missing.front()};
}

std::optional<Error> prove_copy(system::Host& host, const TemporaryDirectory&) {
  proof::Subject subject;
  subject.member = Member::p2p;
  subject.target_gpu = 1;
  return prove(host, subject);
}

std::optional<Error> prove_read(system::Host& host, const TemporaryDirectory& directory) {
  proof::Subject subject;
  subject.member = Member::storage;
  subject.path = directory.file("scratch");
  subject.medium = "drive:nvme0n1";
  return prove(host, subject);
}

bool begins(const std::string& text, std::string_view head) {
  return text.compare(0, head.size(), head) == 0;
}

/// Calls that give something back: where one of them fails, what it was to give
/// back stays.
bool gives_back(const std::string& call) {
  for (const std::string_view each :
       {"cuda.mem_free", "cuda.device_primary_ctx_release", "cufile.driver_close",
        "cufile.buf_deregister", "cufile.handle_deregister", "storage.remove"}) {
    if (begins(call, each)) return true;
  }
  return false;
}

std::uint64_t gpu_memory_in_use(fabric::SoftHost& soft) {
  system::Nvml& nvml = **soft.nvml();
  EXPECT_EQ(nvml.init(), system::nvml::success);
  std::uint64_t used = 0;
  for (unsigned gpu = 0; gpu < soft.machine().gpus.size(); ++gpu) {
    system::nvml::nvmlDevice_t device = nullptr;
    system::nvml::nvmlMemory_t memory{};
    EXPECT_EQ(nvml.device_get_handle_by_index(gpu, &device), system::nvml::success);
    EXPECT_EQ(nvml.device_get_memory_info(device, &memory), system::nvml::success);
    used += memory.used;
  }
  (void)nvml.shutdown();
  return used;
}

/// An error that came from a failed call says which part it came from.
void expect_right_origin(const Error& error, const std::string& failed) {
  EXPECT_GT(to_string(error).size(), 10u);
  EXPECT_NE(error.origin, ErrorOrigin::input)
      << "the caller did nothing wrong: " << to_string(error);
  if (error.origin == ErrorOrigin::cuda) {
    EXPECT_TRUE(begins(failed, "cuda.")) << to_string(error);
  }
  if (error.origin == ErrorOrigin::cufile) {
    EXPECT_TRUE(begins(failed, "cufile.")) << to_string(error);
  }
  if (error.origin == ErrorOrigin::os) {
    EXPECT_FALSE(begins(failed, "cufile.")) << to_string(error);
  }
}

class FailTheNthCall : public ::testing::TestWithParam<Verb> {
 protected:
  /// One run with that call failed; answers how many calls were made.
  std::uint64_t run(std::uint64_t n, std::uint64_t& errors) {
    const TemporaryDirectory directory;
    write_file(directory.file("source"), random_bytes(600001, 1));
    const Result<std::unique_ptr<fabric::SoftHost>> soft =
        fabric::SoftHost::create(machine_, {.deterministic = true, .seed = 7});
    support::AroundHost around(**soft);
    support::CountingMemory memory((*soft)->memory());
    around.memory_part = &memory;
    std::optional<Error> error;
    std::string failed;
    std::uint64_t calls = 0;
    {
      const std::unique_ptr<system::FaultyHost> faulty =
          system::FaultyHost::wrap(around, {.fail_call = n});
      error = GetParam().run(*faulty, directory);
      failed = faulty->failed_call();
      calls = faulty->calls();
    }
    SCOPED_TRACE("call " + std::to_string(n) + ": " + failed);
    if (n == 0) {
      EXPECT_FALSE(error.has_value()) << to_string(*error);
    } else if (error.has_value()) {
      ++errors;
      expect_right_origin(*error, failed);
    }
    // Nothing half written: the target is absent or whole, and no temporary
    // file stays.
    for (const std::string& name : directory.names()) {
      if (name == "source" || gives_back(failed)) continue;
      EXPECT_EQ(name, "target");
      EXPECT_EQ(std::filesystem::file_size(directory.file(name)), 100001u);
    }
    // Nothing stays behind in the machine.
    EXPECT_EQ(memory.held_bytes(), 0u) << "host memory";
    if (!gives_back(failed)) {
      EXPECT_EQ((*soft)->bus().bar1_used_bytes(0), 0u);
      EXPECT_EQ(gpu_memory_in_use(**soft), 0u);
    }
    return calls;
  }

  std::uint64_t calls_of_opening() {
    const Result<std::unique_ptr<fabric::SoftHost>> soft =
        fabric::SoftHost::create(machine_, {.deterministic = true, .seed = 7});
    const std::unique_ptr<system::FaultyHost> counting = system::FaultyHost::wrap(**soft, {});
    const Result<Session> session = Session::open(*counting, options());
    EXPECT_TRUE(session.ok());
    return counting->calls();
  }

  const Machine machine_ = machine_with("workstation");
};

TEST_P(FailTheNthCall, EndsWithAnErrorOrWithoutHarm) {
  std::uint64_t errors = 0;
  // Every verb begins with the same calls of opening a session: one verb of each kind fails those.
  const std::string_view name = GetParam().name;
  const bool opens = name == "CopyInPreferred" || name == "CopyBetweenGpus";
  const std::uint64_t before = opens ? 0 : calls_of_opening();
  const std::uint64_t calls = run(0, errors);
  ASSERT_GT(calls, before);
  const std::uint64_t runs = GetParam().runs_max;
  // An odd stride, so that calls that come in pairs do not hide each other.
  const std::uint64_t stride = runs == 0 ? 1 : ((calls - before) / runs) | 1;
  for (std::uint64_t n = before + 1; n <= calls && !HasFailure(); n += stride) {
    (void)run(n, errors);
  }
  EXPECT_GT(errors, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, FailTheNthCall,
    ::testing::Values(
        Verb{"CopyInPreferred",
             [](auto& host, auto& dir) { return copy_in(host, dir, Policy::direct_preferred); }},
        Verb{"CopyInStaged",
             [](auto& host, auto& dir) { return copy_in(host, dir, Policy::staged_only); }},
        Verb{"CopyOut", copy_out}, Verb{"ThroughHost", through_host}, Verb{"Check", check},
        Verb{"Cancel", cancel}, Verb{"Batch", batch},
        Verb{"CopyBetweenGpus",
             [](auto& host, auto& dir) {
               return copy_between_gpus(host, dir, Policy::direct_preferred);
             }},
        Verb{"CopyBetweenGpusDirectly",
             [](auto& host, auto& dir) {
               return copy_between_gpus(host, dir, Policy::direct_required);
             }},
        Verb{"MapPeer", map_peer}, Verb{"Adopt", adopt}, Verb{"WriteInPlace", write_in_place},
        Verb{"ProveCopy", prove_copy, 100}, Verb{"ProveRead", prove_read, 100}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace nobounce
