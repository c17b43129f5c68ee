// An ordered pair of GPUs as a session uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nobounce/session.hpp>

namespace nobounce::bench {

struct SessionPair {
  SessionPair(system::Host& host, int source_gpu, int target_gpu, std::uint64_t bytes) {
    open(host);
    if (!session.has_value()) return;
    take(source, session->allocate(static_cast<std::uint32_t>(source_gpu), bytes));
    take(target, session->allocate(static_cast<std::uint32_t>(target_gpu), bytes));
  }
  /// From memory that somebody else owns.
  SessionPair(system::Host& host, DevicePointer from, int target_gpu, std::uint64_t bytes) {
    open(host);
    if (!session.has_value()) return;
    take(source, session->adopt(from, bytes));
    take(target, session->allocate(static_cast<std::uint32_t>(target_gpu), bytes));
  }
  bool move(std::uint64_t bytes, Policy policy) {
    TransferOptions options;
    options.policy = policy;
    const Outcome outcome =
        session->transfer(source->place(0, bytes), target->place(0, bytes), options);
    if (!outcome.ok()) failure = to_string(*outcome.error);
    carried += outcome.receipt.bytes;
    return outcome.ok();
  }

  std::optional<Session> session;
  std::optional<Region> source;
  std::optional<Region> target;
  CarriageBytes carried;
  std::string failure;

 private:
  void open(system::Host& host) {
    SessionOptions options;
    options.warn_on_close = false;
    auto opened = Session::open(host, options);
    if (opened.ok()) {
      session.emplace(std::move(*opened));
    } else {
      failure = to_string(opened.error());
    }
  }
  void take(std::optional<Region>& into, Result<Region> region) {
    if (region.ok()) {
      into.emplace(std::move(*region));
    } else {
      failure = to_string(region.error());
    }
  }
};

}  // namespace nobounce::bench
