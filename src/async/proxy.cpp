// One queue's requests, carried out one after the other.
#include "async/proxy.hpp"

namespace nobounce::async {

using system::Step;

namespace {

constexpr std::uint32_t looks_per_step = 1000;
constexpr std::uint32_t requests_per_step = 64;
constexpr std::uint64_t hot_ns = 50'000'000;  ///< spins so long after a request
constexpr std::uint64_t sleep_ns = 50'000;    ///< and then sleeps between two looks

/// The owner is the only writer: no update needs to be atomic as a whole.
void add(std::atomic<std::uint64_t>& count, std::uint64_t by) {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

Proxy::Proxy(system::Host& host, core::KernelConsumer& consumer, const device::QueueSet& queues,
             std::uint32_t index, const std::atomic<bool>& stopping)
    : host_(host),
      consumer_(consumer),
      queues_(queues),
      index_(index),
      stopping_(stopping),
      looks_(host.workers().concurrency() > 1 ? looks_per_step : 1),
      queue_(device::NativePlatform{}, queues.queue<device::NativePlatform>(index)) {}

Step Proxy::step() {
  device::Request request;
  std::uint32_t served = 0;
  for (std::uint32_t looks = 0; looks < looks_ && served < requests_per_step; ++looks) {
    if (!queue_.front(request)) {
      device::NativePlatform{}.pause();
      continue;
    }
    serve(request);
    ++served;
    looks = 0;
  }
  const std::uint64_t now_ns = host_.clock().now_ns();
  if (served > 0) {
    if (asleep_) add(counts_.wake_ups, 1);
    asleep_ = false;
    last_request_ns_ = now_ns;
    return Step::busy();
  }
  if (looks_ > 1 && now_ns - last_request_ns_ < hot_ns) return Step::busy();
  asleep_ = true;
  return Step::idle_until(now_ns + (looks_ > 1 ? sleep_ns : 1'000));
}

void Proxy::serve(const device::Request& request) {
  if (request.operation != device::Operation::nothing) {
    add(counts_.requests, 1);
    add(counts_.asked_bytes, request.length_bytes);
    core::KernelAnswer answer;
    if (request.token >= queues_.tokens || queues_.queue_of(request.token) != index_) {
      answer.code = device::code_bad_token;
    } else {
      // Before the question: who sets `stopping` and then sees an even number may join.
      counts_.turns.fetch_add(1);
      if (stopping_.load()) {
        answer.code = device::code_stopped;
      } else {
        auto* buffer = reinterpret_cast<std::byte*>(queues_.buffer_of(request.token));
        answer = consumer_.carry_out(request, buffer, queues_.buffer_bytes);
      }
      counts_.turns.fetch_add(1);
    }
    complete(request, answer);
  }
  // Only now: a request that had not been carried out would be lost with its slot.
  queue_.release_front();
  counts_.tail.store(queue_.tail(), std::memory_order_release);
}

void Proxy::complete(const device::Request& request, const core::KernelAnswer& answer) {
  add(counts_.arrived_bytes, answer.arrived_bytes);
  add(counts_.system_calls, answer.system_calls);
  if (answer.code != device::code_ok) {
    add(counts_.failed, 1);
    counts_.last_code.store(answer.code, std::memory_order_relaxed);
  }
  // A token that does not exist has nobody to be told; one of another queue is that one's to tell.
  if (request.token < queues_.tokens && queues_.queue_of(request.token) == index_)
    queue_.complete(request.token, request.sequence, answer.code);
}

}  // namespace nobounce::async
