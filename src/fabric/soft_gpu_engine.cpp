// The engines' queues: which command may run next, and what its end means to streams and events.
#include "fabric/soft_gpu_engine.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "fabric/soft_gpu_engine_state.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;
using system::Step;

namespace {

/// Between two looks at a word that a stream waits for.
constexpr std::uint64_t look_again_ns = 10'000;

}  // namespace

GpuEngines::GpuEngines(Bus& bus, SoftWorkers& workers, system::Clock& clock,
                       const SoftFaults& faults, SoftRandom& random)
    : bus_(bus), workers_(workers), clock_(clock), faults_(faults), random_(random) {
  for (std::uint32_t gpu = 0; gpu < bus.machine().gpus.size(); ++gpu) {
    engines_.push_back(std::make_unique<Engine>(*this, gpu));
  }
}

GpuEngines::~GpuEngines() {
  for (const auto& engine : engines_) {
    if (engine->id != 0) workers_.stop(engine->id);
  }
}

Step GpuEngines::Engine::step() {
  return owner.step(gpu);
}

std::shared_ptr<GpuStream> GpuEngines::make_stream(std::uint32_t gpu, bool blocking,
                                                   bool is_default) {
  auto stream = std::make_shared<GpuStream>();
  stream->gpu = gpu;
  stream->blocking = blocking;
  stream->is_default = is_default;
  return stream;
}

void GpuEngines::queue(const std::shared_ptr<GpuStream>& stream, GpuCommand command) {
  command.sequence = next_sequence_++;
  if (stream->commands.empty()) engines_[stream->gpu]->active.push_back(stream);
  stream->commands.push_back(std::move(command));
}

/// A fault is everybody's.
CUresult GpuEngines::error_of(const GpuStream& stream) const {
  return fault() != cuda::success ? fault() : stream.error;
}

CUresult GpuEngines::submit(const std::shared_ptr<GpuStream>& stream, GpuCommand command) {
  {
    const std::lock_guard lock(mutex_);
    if (const CUresult error = error_of(*stream); error != cuda::success) return error;
    queue(stream, std::move(command));
  }
  wake(stream->gpu);
  return cuda::success;
}

CUresult GpuEngines::submit(const std::shared_ptr<GpuStream>& stream, const GpuCopy& copy) {
  GpuCommand command;
  command.kind = GpuCommand::Kind::copy;
  command.copy = copy;
  return submit(stream, std::move(command));
}

CUresult GpuEngines::submit(const std::shared_ptr<GpuStream>& stream, GpuWork work) {
  GpuCommand command;
  command.kind = GpuCommand::Kind::work;
  command.work = std::move(work);
  return submit(stream, std::move(command));
}

CUresult GpuEngines::wait_for_word(const std::shared_ptr<GpuStream>& stream, const End& word,
                                   std::uint64_t value, unsigned compare) {
  GpuCommand command;
  command.kind = GpuCommand::Kind::wait_word;
  command.word = word;
  command.value = value;
  command.compare = compare;
  return submit(stream, std::move(command));
}

CUresult GpuEngines::write_word(const std::shared_ptr<GpuStream>& stream, const End& word,
                                std::uint64_t value) {
  GpuCommand command;
  command.kind = GpuCommand::Kind::write_word;
  command.word = word;
  command.value = value;
  return submit(stream, std::move(command));
}

CUresult GpuEngines::record(const std::shared_ptr<GpuStream>& stream,
                            const std::shared_ptr<GpuEvent>& event) {
  {
    const std::lock_guard lock(mutex_);
    if (const CUresult error = error_of(*stream); error != cuda::success) return error;
    event->error = cuda::success;
    if (bus_.planted(Mutant::cuda_event_early)) event->completed = event->recorded + 1;
    GpuCommand command;
    command.kind = GpuCommand::Kind::record;
    command.event = event;
    command.version = ++event->recorded;
    queue(stream, std::move(command));
  }
  wake(stream->gpu);
  return cuda::success;
}

CUresult GpuEngines::wait_in_stream(const std::shared_ptr<GpuStream>& stream,
                                    const std::shared_ptr<GpuEvent>& event) {
  {
    const std::lock_guard lock(mutex_);
    if (const CUresult error = error_of(*stream); error != cuda::success) return error;
    GpuCommand command;
    command.kind = GpuCommand::Kind::wait;
    command.event = event;
    command.version = event->recorded;
    queue(stream, std::move(command));
  }
  wake(stream->gpu);
  return cuda::success;
}

std::uint64_t GpuEngines::first_sequence(std::uint32_t gpu, bool of_default) const {
  std::uint64_t first = UINT64_MAX;
  for (const auto& stream : engines_[gpu]->active) {
    if (stream->is_default != of_default || (!stream->is_default && !stream->blocking)) continue;
    first = std::min(first, stream->commands.front().sequence);
  }
  return first;
}

/// As the driver documents it: the greater-or-equal is cyclic.
bool GpuEngines::compares(const GpuCommand& wait) const {
  const std::uint64_t word = bus_.watch_word(wait.word);
  switch (wait.compare) {
    case cuda::wait_value_eq:
      return word == wait.value;
    case cuda::wait_value_and:
      return (word & wait.value) != 0;
    case cuda::wait_value_nor:
      return ~(word | wait.value) != 0;
    default:
      return static_cast<std::int64_t>(word - wait.value) >= 0;
  }
}

bool GpuEngines::needs_others() const {
  const std::lock_guard lock(mutex_);
  for (const auto& engine : engines_) {
    for (const auto& stream : engine->active) {
      for (const GpuCommand& command : stream->commands) {
        if (command.kind == GpuCommand::Kind::wait_word) return true;
        if (command.kind == GpuCommand::Kind::work) return true;
      }
    }
  }
  return false;
}

void GpuEngines::await(core::FunctionRef<bool()> ready, std::string_view what) {
  if (needs_others()) {
    workers_.wait_for_all(ready, what);
  } else {
    workers_.wait_for_engines(ready, what);
  }
}

bool GpuEngines::runnable(const GpuStream& stream) const {
  if (stream.running || stream.commands.empty()) return false;
  const GpuCommand& command = stream.commands.front();
  if (command.kind == GpuCommand::Kind::wait && command.event->completed < command.version) {
    return bus_.planted(Mutant::cuda_wait_ignored);
  }
  if (command.kind == GpuCommand::Kind::wait_word && !compares(command)) {
    return error_of(stream) != cuda::success || bus_.planted(Mutant::cuda_wait_ignored);
  }
  // The default stream waits for all that blocking streams were given before, and they for it.
  if (!stream.is_default && !stream.blocking) return true;
  return first_sequence(stream.gpu, !stream.is_default) > command.sequence;
}

void GpuEngines::wake(std::uint32_t gpu) {
  system::WorkerId id = 0;
  {
    const std::lock_guard lock(mutex_);
    Engine& engine = *engines_[gpu];
    if (engine.id == 0) {
      engine.id = workers_.start_engine(engine, "gpu:" + std::to_string(gpu));
      return;
    }
    id = engine.id;
  }
  workers_.wake(id);
}

void GpuEngines::wake_all() {
  std::vector<system::WorkerId> ids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& engine : engines_) {
      if (engine->id != 0) ids.push_back(engine->id);
    }
  }
  for (const system::WorkerId id : ids) workers_.wake(id);
}

void GpuEngines::misplace(GpuStream& stream) const {
  std::deque<GpuCommand>& commands = stream.commands;
  if (commands.size() < 2) return;
  const bool flag_next =
      commands[0].kind == GpuCommand::Kind::copy && commands[1].kind == GpuCommand::Kind::record;
  if (bus_.planted(Mutant::cuda_flag_before_data) && flag_next) {
    std::swap(commands[0], commands[1]);
  }
  if (bus_.planted(Mutant::cuda_order_lost)) std::swap(commands.front(), commands.back());
}

Step GpuEngines::step(std::uint32_t gpu) {
  Engine& engine = *engines_[gpu];
  std::shared_ptr<GpuStream> stream;
  GpuCommand command;
  bool dropped = false;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < engine.active.size(); ++i) {
      if (runnable(*engine.active[i])) ready.push_back(i);
    }
    if (ready.empty()) {
      for (const auto& waiting : engine.active) {
        if (waiting->commands.front().kind == GpuCommand::Kind::wait_word) {
          return Step::idle_until(clock_.now_ns() + look_again_ns);
        }
      }
      return Step::idle();
    }
    stream = engine.active[ready[random_.below(ready.size())]];
    stream->running = true;
    misplace(*stream);
    command = stream->commands.front();
    dropped = error_of(*stream) != cuda::success;
  }
  CUresult result = cuda::success;
  GpuWorkStep work;
  if (command.kind == GpuCommand::Kind::copy && !dropped) result = run(gpu, command.copy);
  if (command.kind == GpuCommand::Kind::write_word && !dropped) {
    const bool stored =
        bus_.kernel_store(gpu, std::as_bytes(std::span(&command.value, 1)), command.word).ok();
    if (!stored) result = cuda::error_illegal_address;
  }
  if (command.kind == GpuCommand::Kind::work && !dropped) {
    work = command.work();
    result = work.fault;
  }
  {
    const std::lock_guard lock(mutex_);
    if (work.fault != cuda::success) fault_.store(work.fault);
    if (!work.done && work.fault == cuda::success) {
      stream->running = false;  // its turn will come again
      return Step::busy();
    }
    if (stream->error == cuda::success && !bus_.planted(Mutant::cuda_error_swallowed)) {
      stream->error = result;
    }
    if (command.kind == GpuCommand::Kind::record) {
      command.event->completed = std::max(command.event->completed, command.version);
      if (error_of(*stream) != cuda::success) command.event->error = error_of(*stream);
    }
    stream->running = false;
    stream->commands.pop_front();
    if (stream->commands.empty()) {
      engine.active.erase(std::find(engine.active.begin(), engine.active.end(), stream));
    }
  }
  // Streams of other GPUs may wait for this event.
  if (command.kind == GpuCommand::Kind::record) wake_all();
  workers_.notify();
  return Step::busy();
}

CUresult GpuEngines::query(const GpuStream& stream) {
  const std::lock_guard lock(mutex_);
  if (error_of(stream) != cuda::success) return error_of(stream);
  return stream.commands.empty() ? cuda::success : cuda::error_not_ready;
}

CUresult GpuEngines::query(const GpuEvent& event) {
  const std::lock_guard lock(mutex_);
  if (fault() != cuda::success) return fault();
  if (event.completed < event.recorded) return cuda::error_not_ready;
  return event.error;
}

CUresult GpuEngines::synchronize(const GpuStream& stream) {
  const auto done = [&] {
    const std::lock_guard lock(mutex_);
    return stream.commands.empty();
  };
  await(done, "a stream of gpu:" + std::to_string(stream.gpu));
  const std::lock_guard lock(mutex_);
  return error_of(stream);
}

CUresult GpuEngines::synchronize(const GpuEvent& event) {
  const auto done = [&] {
    const std::lock_guard lock(mutex_);
    return event.completed >= event.recorded;
  };
  await(done, "an event");
  const std::lock_guard lock(mutex_);
  return fault() != cuda::success ? fault() : event.error;
}

CUresult GpuEngines::synchronize_gpu(std::uint32_t gpu) {
  std::vector<std::shared_ptr<GpuStream>> streams;
  const auto done = [&] {
    const std::lock_guard lock(mutex_);
    const auto& active = engines_[gpu]->active;
    for (const auto& stream : active) {
      if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
        streams.push_back(stream);
      }
    }
    return active.empty();
  };
  await(done, "gpu:" + std::to_string(gpu));
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams) {
    if (const CUresult error = error_of(*stream); error != cuda::success) return error;
  }
  return fault();
}

}  // namespace nobounce::fabric
