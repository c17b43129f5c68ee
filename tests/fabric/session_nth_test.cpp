// Every call through the seam is failed once, for each verb of a session: no leak, no hang, an
// honest error.
#include <gtest/gtest.h>

#include <functional>

#include "support/soft_session.hpp"
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

/// Ends with the first error of a batch of three; the other two end by themselves.
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

class FailTheNthCall : public ::testing::TestWithParam<Verb> {};

TEST_P(FailTheNthCall, EndsWithAnErrorOrWithoutHarm) {
  const Machine machine = machine_with("workstation");
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  for (std::uint64_t n = 0; n <= calls; ++n) {
    const TemporaryDirectory directory;
    write_file(directory.file("source"), random_bytes(600001, 1));
    Result<std::unique_ptr<fabric::SoftHost>> soft =
        fabric::SoftHost::create(machine, {.deterministic = true, .seed = 7});
    ASSERT_TRUE(soft.ok());
    std::optional<Error> error;
    std::string failed;
    {
      const std::unique_ptr<system::FaultyHost> faulty =
          system::FaultyHost::wrap(**soft, {.fail_call = n});
      error = GetParam().run(*faulty, directory);
      failed = faulty->failed_call();
      if (n == 0) {
        calls = faulty->calls();
        ASSERT_GT(calls, 10u);
        ASSERT_FALSE(error.has_value()) << to_string(*error);
      }
    }
    SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(calls) + ": " + failed);
    if (error.has_value()) {
      ++errors;
      EXPECT_GT(to_string(*error).size(), 10u);
      // An error that came from a failed call says which part it came from; a refusal says its
      // cause.
      if (error->origin == ErrorOrigin::cuda) {
        EXPECT_EQ(failed.rfind("cuda.", 0), 0u) << to_string(*error);
      }
      if (error->origin == ErrorOrigin::cufile) {
        EXPECT_EQ(failed.rfind("cufile.", 0), 0u) << to_string(*error);
      }
    }
    // Nothing half written: the target is absent or whole, and no temporary file stays.
    for (const std::string& name : directory.names()) {
      EXPECT_TRUE(name == "source" || name == "target") << name;
      if (name == "target") {
        EXPECT_EQ(std::filesystem::file_size(directory.file(name)), 100001u);
      }
    }
    // No GPU memory and no pinned memory stays behind in the machine.
    Result<system::Cuda*> cuda = (*soft)->cuda();
    ASSERT_TRUE(cuda.ok());
    EXPECT_EQ((*soft)->bus().bar1_used_bytes(0), 0u);
  }
  EXPECT_GT(errors, 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, FailTheNthCall,
    ::testing::Values(
        Verb{"CopyInPreferred",
             [](auto& host, auto& dir) { return copy_in(host, dir, Policy::direct_preferred); }},
        Verb{"CopyInStaged",
             [](auto& host, auto& dir) { return copy_in(host, dir, Policy::staged_only); }},
        Verb{"CopyOut", copy_out}, Verb{"ThroughHost", through_host}, Verb{"Check", check},
        Verb{"Cancel", cancel}, Verb{"Batch", batch}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace nobounce
