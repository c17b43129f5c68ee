// The small parts of a FaultyHost that can fail: files, memory, workers, counters, environment.
#pragma once

#include "system/fault_counter.hpp"
#include "system/host.hpp"

namespace nobounce::system {

class FaultyFiles final : public Files {
 public:
  FaultyFiles(FaultCounter& counter, Files& inner) : counter_(counter), inner_(inner) {}

  Result<std::string> read(std::string_view path) override {
    if (counter_.fails("files.read")) return counter_.error("files.read");
    return inner_.read(path);
  }
  Result<std::vector<std::string>> list(std::string_view path) override {
    if (counter_.fails("files.list")) return counter_.error("files.list");
    return inner_.list(path);
  }
  Result<std::string> read_link(std::string_view path) override {
    if (counter_.fails("files.read_link")) return counter_.error("files.read_link");
    return inner_.read_link(path);
  }
  Result<std::string> real_path(std::string_view path) override {
    if (counter_.fails("files.real_path")) return counter_.error("files.real_path");
    return inner_.real_path(path);
  }
  bool exists(std::string_view path) override { return inner_.exists(path); }

 private:
  FaultCounter& counter_;
  Files& inner_;
};

class FaultyMemory final : public Memory {
 public:
  FaultyMemory(FaultCounter& counter, Memory& inner) : counter_(counter), inner_(inner) {}

  Result<HostBuffer> allocate_pinned(std::uint64_t length_bytes, std::uint32_t numa,
                                     MemoryUse use) override {
    if (counter_.fails("memory.allocate_pinned")) return counter_.error("memory.allocate_pinned");
    return inner_.allocate_pinned(length_bytes, numa, use);
  }
  Result<HostBuffer> allocate_plain(std::uint64_t length_bytes, std::uint32_t numa) override {
    if (counter_.fails("memory.allocate_plain")) return counter_.error("memory.allocate_plain");
    return inner_.allocate_plain(length_bytes, numa);
  }
  void free(const HostBuffer& buffer) override { inner_.free(buffer); }
  void copy(std::byte* target, const std::byte* source, std::size_t length_bytes) override {
    inner_.copy(target, source, length_bytes);
  }

 private:
  FaultCounter& counter_;
  Memory& inner_;
};

class FaultyWorkers final : public Workers {
 public:
  FaultyWorkers(FaultCounter& counter, Workers& inner) : counter_(counter), inner_(inner) {}

  Result<WorkerId> start(Worker& worker, std::string_view name) override {
    if (counter_.fails("workers.start")) return counter_.error("workers.start");
    return inner_.start(worker, name);
  }
  void wake(WorkerId id) override { inner_.wake(id); }
  void stop(WorkerId id) override { inner_.stop(id); }
  bool wait(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns) override {
    return inner_.wait(ready, deadline_ns);
  }
  bool wait_closely(core::FunctionRef<bool()> ready, std::uint64_t deadline_ns,
                    std::uint64_t closely_ns) override {
    return inner_.wait_closely(ready, deadline_ns, closely_ns);
  }
  void give_way() override { inner_.give_way(); }
  void notify() override { inner_.notify(); }
  unsigned concurrency() const override { return inner_.concurrency(); }

 private:
  FaultCounter& counter_;
  Workers& inner_;
};

class FaultyCounters final : public Counters {
 public:
  FaultyCounters(FaultCounter& counter, Counters& inner) : counter_(counter), inner_(inner) {}

  Result<std::uint64_t> cpu_time_ns() override {
    if (counter_.fails("counters.cpu_time_ns")) return counter_.error("counters.cpu_time_ns");
    return inner_.cpu_time_ns();
  }
  Result<double> perf_event(std::string_view pmu, std::string_view event) override {
    if (counter_.fails("counters.perf_event")) return counter_.error("counters.perf_event");
    return inner_.perf_event(pmu, event);
  }

 private:
  FaultCounter& counter_;
  Counters& inner_;
};

class FaultyEnvironment final : public Environment {
 public:
  FaultyEnvironment(FaultCounter& counter, Environment& inner) : counter_(counter), inner_(inner) {}

  std::optional<std::string> get(std::string_view name) override { return inner_.get(name); }
  Status set(std::string_view name, std::string_view value) override {
    if (counter_.fails("environment.set")) return counter_.error("environment.set");
    return inner_.set(name, value);
  }

 private:
  FaultCounter& counter_;
  Environment& inner_;
};

}  // namespace nobounce::system
