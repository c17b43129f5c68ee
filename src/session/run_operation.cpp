// One operation outside any receipt and ledger, bounded in time.
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "session/prepare.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

namespace {

/// What a provider ends by itself at the deadline is told a little later.
constexpr std::uint64_t telling_ns = 1'000'000'000;

struct SingleSink : CompletionSink {
  void on_completion(const core::Completion& ended) override {
    completion = ended;
    done = true;
  }
  core::Completion completion;
  std::atomic<bool> done{false};
  std::shared_ptr<void> uses;
};

Error does_not_end(const SessionState& state, const Segment& segment) {
  return Error{
      .origin = ErrorOrigin::session,
      .attempted = describe_transfer(state, segment.source, segment.target),
      .cause = Cause::session_deadline_passed,
      .detail = "it did not end within " + std::to_string(drop_patience_ns / 1'000'000'000) +
                " s and was given up; its bytes may still arrive",
      .remedy =
          "a GPU or a drive hangs: the kernel's log (dmesg) and nvidia-smi say which; what "
          "was given up stays as it is until it has ended, or the process ends"};
}

}  // namespace

core::Completion run_operation(SessionState& state, const Segment& segment,
                               std::shared_ptr<void> uses) {
  const auto sink = std::make_shared<SingleSink>();
  sink->uses = std::move(uses);
  core::Provider& provider = *state.providers.of(segment);
  core::Operation operation{.segment = segment, .deadline_ns = time_ahead(state, drop_patience_ns)};
  {
    const std::scoped_lock lock(state.dispatcher->mutex());
    operation.id = state.dispatcher->expect(*sink);
    provider.submit(std::span(&operation, 1));
  }
  const bool ended = state.host.workers().wait(
      [&] {
        if (!sink->done) state.dispatcher->dispatch();
        return sink->done.load();
      },
      operation.deadline_ns + telling_ns);
  if (ended) {
    // A copy that its provider gave up on may still use the memory.
    const GivenUp& given_up = state.given_up;
    if (sink->completion.error.has_value() && sink->uses != nullptr && given_up.any() &&
        (given_up.uses(segment.source) || given_up.uses(segment.target))) {
      state.given_up.keep(sink->uses);
    }
    return sink->completion;
  }
  {
    const std::scoped_lock lock(state.dispatcher->mutex());
    if (sink->done) return sink->completion;
    provider.cancel(operation.id);
  }
  give_up(state, sink, [mover = sink.get()] { return mover->done.load(); }, {segment.source},
          {segment.target});
  core::Completion completion{.id = operation.id, .error = does_not_end(state, segment)};
  completion.cause = completion.error->cause;
  return completion;
}

}  // namespace nobounce::session
