// The device queue under Relacy: many interleavings and memory orders of small models, and proof
// that the checker notices a weaker queue.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <sstream>

#include <nobounce/device/queue.hpp>

// Relacy last: it makes macros of new, delete, free and the memory orders.
#include <relacy/relacy.hpp>
#undef new
#undef delete
#undef free

// The forms that Relacy's own operators leave out, so that what they gave out comes back to them.
void operator delete(void* memory, std::size_t) noexcept {
  ::operator delete(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  ::operator delete[](memory);
}
/// std::stable_sort asks in this form, and gives back in the plain one.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return ::operator new(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return ::operator new[](bytes);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  ::operator delete(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  ::operator delete[](memory);
}

/// Read by AddressSanitizer: Relacy keeps the stacks of its fibers to the end.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

namespace nobounce::device {
namespace {

rl::memory_order relacy_order(Order order, bool weakened) {
  if (weakened) return rl::mo_relaxed;
  switch (order) {
    case Order::acquire:
      return rl::mo_acquire;
    case Order::release:
      return rl::mo_release;
    case Order::acquire_release:
      return rl::mo_acq_rel;
    case Order::relaxed:
      break;
  }
  return rl::mo_relaxed;
}

/// `weakened` treats every access as a volatile one, which orders nothing.
template <bool weakened>
struct ModelPlatform {
  template <typename T>
  using Pointer = rl::atomic<T>*;

  template <Order order, Scope, typename T>
  T load(rl::atomic<T>* source) const {
    return source->load(relacy_order(order, weakened), $);
  }
  template <Order order, Scope, typename T>
  void store(rl::atomic<T>* target, T value) const {
    target->store(value, relacy_order(order, weakened), $);
  }
  template <Scope>
  void store_pair(rl::atomic<std::uint64_t>* target, std::uint64_t first,
                  std::uint64_t second) const {
    target[1].store(second, rl::mo_relaxed, $);
    target[0].store(first, rl::mo_relaxed, $);
  }
  template <Order order, Scope, typename T>
  T fetch_add(rl::atomic<T>* target, T operand) const {
    return target->fetch_add(operand, relacy_order(order, weakened), $);
  }
  [[nodiscard]] std::uint64_t now_ns() const { return 1; }
  void pause() const { rl::yield(1, $); }
};

using Ticket = std::uint8_t;

/// Producers hand bytes to a consumer with their requests, and get bytes back with its completions.
template <bool weakened, std::uint32_t producers, std::uint32_t size_log2, std::uint64_t rounds>
struct Model : rl::test_suite<Model<weakened, producers, size_log2, rounds>, producers + 1> {
  static constexpr std::uint32_t size = 1U << size_log2;
  // So near to the end of the tickets that they wrap at once.
  static constexpr Ticket start = 256 - 2 * size;
  using Platform = ModelPlatform<weakened>;

  rl::atomic<Ticket> head;
  rl::atomic<Ticket> tail_seen;
  rl::atomic<std::uint32_t> abandoned;
  rl::atomic<std::uint64_t> slots[size * words_per_slot];
  rl::atomic<Ticket> tail;
  rl::atomic<std::uint32_t> state;
  rl::atomic<std::uint64_t> completions[producers];
  rl::var<std::uint64_t> asked[producers];
  rl::var<std::uint64_t> answered[producers];

  QueueMemory<Platform, Ticket> memory() {
    QueueMemory<Platform, Ticket> memory;
    memory.head = &head;
    memory.tail_seen = &tail_seen;
    memory.abandoned = &abandoned;
    memory.slots = slots;
    memory.tail = &tail;
    memory.state = &state;
    memory.completions = completions;
    memory.completion_stride = 1;
    memory.size_log2 = size_log2;
    return memory;
  }

  void before() {
    head.store(start, rl::mo_relaxed, $);
    tail_seen.store(start, rl::mo_relaxed, $);
    tail.store(start, rl::mo_relaxed, $);
    abandoned.store(0, rl::mo_relaxed, $);
    state.store(0, rl::mo_relaxed, $);
    for (auto& slot : slots) slot.store(0, rl::mo_relaxed, $);
    for (auto& completion : completions) completion.store(0, rl::mo_relaxed, $);
    for (std::uint32_t i = 0; i < producers; ++i) {
      asked[i]($) = 0;
      answered[i]($) = 0;
    }
  }

  void thread(unsigned index) { index < producers ? produce(index) : consume(); }

  void produce(std::uint32_t token) {
    Producer<Platform, Ticket> producer(Platform{}, memory());
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      asked[token]($) = i;
      Request request;
      request.operation = Operation::write;
      request.token = token;
      request.sequence = i;
      request.offset_bytes = i + 10 * token;
      RL_ASSERT(producer.submit(request, 0) == Result::ok);
      std::uint16_t code = 0;
      Result result = Result::pending;
      while ((result = producer.poll(token, i, code)) == Result::pending) rl::yield(1, $);
      RL_ASSERT(result == Result::ok);
      RL_ASSERT(answered[token]($) == i + 100);
    }
  }

  void consume() {
    Consumer<Platform, Ticket> consumer(Platform{}, memory(), start);
    for (std::uint64_t served = 0; served < producers * rounds;) {
      Request request;
      if (!consumer.front(request)) {
        rl::yield(1, $);
        continue;
      }
      RL_ASSERT(request.token < producers);
      RL_ASSERT(request.offset_bytes == request.sequence + 10 * request.token);
      RL_ASSERT(asked[request.token]($) == request.sequence);
      answered[request.token]($) = request.sequence + 100;
      consumer.complete(request.token, request.sequence, code_ok);
      consumer.release_front();
      ++served;
    }
  }
};

/// What the checker found in so many interleavings. Without the replay that rl::simulate makes of
/// what it finds: in this version of Relacy that one writes beyond its memory.
template <typename Suite>
rl::test_result_e found_in(rl::iteration_t iterations) {
  std::ostringstream output;
  rl::test_params params;
  params.iteration_count = iterations;
  params.output_stream = &output;
  params.progress_stream = &output;
  params.execution_depth_limit = 20000;
  using Scheduler = rl::random_scheduler<Suite::params::thread_count>;
  return rl::run_test<Suite, Scheduler>(params, output, false);
}

TEST(DeviceQueueModel, OneProducerOneConsumer) {
  EXPECT_EQ((found_in<Model<false, 1, 1, 6>>)(2000), rl::test_result_success);
}
TEST(DeviceQueueModel, TwoProducersOnTwoSlots) {
  EXPECT_EQ((found_in<Model<false, 2, 1, 4>>)(2000), rl::test_result_success);
}
TEST(DeviceQueueModel, ThreeProducersOnTwoSlots) {
  EXPECT_EQ((found_in<Model<false, 3, 1, 3>>)(1500), rl::test_result_success);
}
TEST(DeviceQueueModel, TwoProducersOnFourSlots) {
  EXPECT_EQ((found_in<Model<false, 2, 2, 5>>)(1500), rl::test_result_success);
}
TEST(DeviceQueueRegression, VolatileIsNotOrdered) {
  EXPECT_EQ((found_in<Model<true, 2, 1, 4>>)(2000), rl::test_result_data_race);
}

}  // namespace
}  // namespace nobounce::device
