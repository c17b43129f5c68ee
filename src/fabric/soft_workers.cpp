// Workers and engines of a software machine, threaded and deterministic.
#include "fabric/soft_workers.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "system/live_host.hpp"

namespace nobounce::fabric {

namespace {

using system::Step;
using system::Worker;
using system::WorkerId;

/// A step costs time even where it moves nothing, so that polling reaches its deadline.
constexpr std::uint64_t step_ns = 100;

class DeterministicWorkers final : public SoftWorkers {
 public:
  DeterministicWorkers(SoftClock& clock, std::uint64_t seed) : clock_(clock), random_(seed) {}

  Result<WorkerId> start(Worker& worker, std::string_view name) override {
    return add(worker, name, false);
  }
  WorkerId start_engine(Worker& engine, std::string_view name) override {
    return add(engine, name, true);
  }
  void wake(WorkerId id) override {
    const auto found = entries_.find(id);
    if (found != entries_.end()) found->second.woken = true;
  }
  void stop(WorkerId id) override { entries_.erase(id); }
  void notify() override {}
  void give_way() override;
  unsigned concurrency() const override { return 1; }
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) override {
    return wait_for(ready, deadline_ns, depth_ > 0, "a condition of the caller");
  }
  void wait_for_engines(core::FunctionRef<bool()> ready, std::string_view what) override {
    (void)wait_for(ready, 0, true, what);
  }
  void wait_for_all(core::FunctionRef<bool()> ready, std::string_view what) override {
    (void)wait_for(ready, 0, depth_ > 0, what);
  }

 private:
  struct Entry {
    Worker* worker = nullptr;
    std::string name;
    bool engine = false;
    bool woken = true;  ///< step it as soon as its turn comes
    bool done = false;
    bool stepping = false;
    std::uint64_t until_ns = 0;  ///< of the last idle answer; 0: none
  };

  WorkerId add(Worker& worker, std::string_view name, bool engine) {
    const WorkerId id = next_id_++;
    entries_.emplace(id, Entry{&worker, std::string(name), engine, true, false, false, 0});
    return id;
  }
  [[nodiscard]] bool may_step(const Entry& entry, bool engines_only) const {
    return !entry.done && !entry.stepping && (entry.engine || !engines_only);
  }
  bool wait_for(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns, bool engines_only,
                std::string_view what);
  /// False if nobody could be stepped.
  bool step_somebody(bool engines_only);
  [[nodiscard]] std::uint64_t next_timer(bool engines_only) const;
  [[noreturn]] void report_hang(std::string_view what, bool engines_only) const;

  SoftClock& clock_;
  SoftRandom random_;
  std::map<WorkerId, Entry> entries_;
  WorkerId next_id_ = 1;
  unsigned depth_ = 0;  ///< steps of workers (not engines) that are on the stack
};

bool DeterministicWorkers::wait_for(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                                    bool engines_only, std::string_view what) {
  while (!ready()) {
    if (deadline_ns != 0 && clock_.now_ns() >= deadline_ns) return false;
    if (step_somebody(engines_only)) continue;
    // Nobody can go on now: time passes until somebody's timer, or the deadline.
    std::uint64_t next_ns = next_timer(engines_only);
    if (deadline_ns != 0) next_ns = next_ns == 0 ? deadline_ns : std::min(next_ns, deadline_ns);
    if (next_ns == 0) report_hang(what, engines_only);
    clock_.jump_to(next_ns);
  }
  return true;
}

void DeterministicWorkers::give_way() {
  const bool engines_only = depth_ > 0;
  if (step_somebody(engines_only)) return;
  // Whoever polls lets time pass meanwhile.
  if (const std::uint64_t next_ns = next_timer(engines_only); next_ns != 0) clock_.jump_to(next_ns);
}

bool DeterministicWorkers::step_somebody(bool engines_only) {
  std::vector<WorkerId> candidates;
  const std::uint64_t now_ns = clock_.now_ns();
  for (const auto& [id, entry] : entries_) {
    const bool due = entry.woken || (entry.until_ns != 0 && entry.until_ns <= now_ns);
    if (due && may_step(entry, engines_only)) candidates.push_back(id);
  }
  if (candidates.empty()) return false;
  const WorkerId id = candidates[random_.below(candidates.size())];
  Entry& entry = entries_.at(id);
  const bool is_worker = !entry.engine;
  entry.woken = false;
  entry.until_ns = 0;
  entry.stepping = true;
  depth_ += is_worker ? 1 : 0;
  clock_.advance(step_ns);
  const Step step = entry.worker->step();
  depth_ -= is_worker ? 1 : 0;
  const auto found = entries_.find(id);
  if (found == entries_.end()) return true;  // stopped meanwhile
  found->second.stepping = false;
  found->second.done = step.kind == Step::Kind::done;
  if (step.kind == Step::Kind::busy) found->second.woken = true;
  if (step.kind == Step::Kind::idle) found->second.until_ns = step.until_ns;
  return true;
}

std::uint64_t DeterministicWorkers::next_timer(bool engines_only) const {
  std::uint64_t next_ns = 0;
  for (const auto& [id, entry] : entries_) {
    if (entry.until_ns == 0 || !may_step(entry, engines_only)) continue;
    next_ns = next_ns == 0 ? entry.until_ns : std::min(next_ns, entry.until_ns);
  }
  return next_ns;
}

void DeterministicWorkers::report_hang(std::string_view what, bool engines_only) const {
  std::string text = "nobounce: software machine: nothing can make progress while waiting for ";
  text += what;
  if (engines_only && depth_ > 0) text += " inside a worker's step (only engines run there)";
  text += "; workers:";
  for (const auto& [id, entry] : entries_) {
    text += ' ' + entry.name;
    text += entry.done ? " (done)" : entry.stepping ? " (stepping)" : " (idle, not woken)";
  }
  if (entries_.empty()) text += " none";
  text += '\n';
  std::fputs(text.c_str(), stderr);
  std::abort();
}

class ThreadedSoftWorkers final : public SoftWorkers {
 public:
  explicit ThreadedSoftWorkers(system::Clock& clock)
      : threads_(system::make_threaded_workers(clock)) {}

  Result<WorkerId> start(Worker& worker, std::string_view name) override {
    return threads_->start(worker, name);
  }
  WorkerId start_engine(Worker& engine, std::string_view name) override {
    const Result<WorkerId> id = threads_->start(engine, name);
    if (!id.ok()) {
      std::fputs("nobounce: software machine: no thread left for a GPU's engine\n", stderr);
      std::abort();
    }
    return *id;
  }
  void wake(WorkerId id) override { threads_->wake(id); }
  void stop(WorkerId id) override { threads_->stop(id); }
  void notify() override { threads_->notify(); }
  unsigned concurrency() const override { return threads_->concurrency(); }
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) override {
    return threads_->wait(ready, deadline_ns);
  }
  bool wait_closely(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                    std::uint64_t closely_ns) override {
    return threads_->wait_closely(ready, deadline_ns, closely_ns);
  }
  void wait_for_engines(core::FunctionRef<bool()> ready, std::string_view) override {
    (void)threads_->wait(ready, 0);
  }
  void wait_for_all(core::FunctionRef<bool()> ready, std::string_view) override {
    (void)threads_->wait(ready, 0);
  }

 private:
  std::unique_ptr<system::Workers> threads_;
};

}  // namespace

std::unique_ptr<SoftWorkers> make_deterministic_workers(SoftClock& clock, std::uint64_t seed) {
  return std::make_unique<DeterministicWorkers>(clock, seed);
}

std::unique_ptr<SoftWorkers> make_threaded_soft_workers(system::Clock& clock) {
  return std::make_unique<ThreadedSoftWorkers>(clock);
}

}  // namespace nobounce::fabric
