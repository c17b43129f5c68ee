// The preconditions of member async.
#include "judge/async.hpp"

#include <string>

#include "judge/findings.hpp"

namespace nobounce::judge {

namespace {

std::string subject_of(const core::AsyncFacts& facts) {
  return "gpu:" + std::to_string(facts.gpu);
}

/// Either the GPU orders what devices write, or somebody can flush it.
Finding judge_order(const core::AsyncFacts& facts) {
  const Rule rule{Cause::async_ordering_unproven, subject_of(facts),
                  "inbound writes that the GPU orders, or that the host or the stream can flush"};
  const core::Fact& native = facts.inbound_ordered;
  if (native.value.value_or(false)) return met(rule, "the GPU orders them itself", native.source);
  for (const core::Fact* flush : {&facts.flush_by_stream, &facts.flush_by_host}) {
    if (!flush->value.value_or(false)) continue;
    return met(rule, flush == &facts.flush_by_host ? "the host flushes them" : "the stream flushes",
               flush->source);
  }
  if (!native.value.has_value() || !facts.flush_by_host.value.has_value())
    return unknown(rule, native.observed, native.source);
  return unmet(rule, "nobody orders them, and nobody can flush them", native.source);
}

}  // namespace

std::vector<Finding> judge_stream_order(const core::AsyncFacts& facts) {
  return {judge_fact({Cause::async_stream_memory_ops_unavailable, subject_of(facts),
                      "64-bit stream memory operations"},
                     facts.stream_words, true),
          judge_order(facts)};
}

std::vector<Finding> judge_kernel_order(const core::AsyncFacts& facts) {
  // Words and buffers of the queue lie in host memory: no third device writes to the GPU.
  return {judge_fact(
      {Cause::async_flush_unavailable, subject_of(facts), "pinned host memory that kernels reach"},
      facts.host_memory_seen, true)};
}

std::vector<Finding> judge_doorbell_order(const core::AsyncFacts& facts) {
  // Nobody flushes between the drive's completion and the kernel's look at the bytes.
  return {judge_fact({Cause::async_ordering_unproven, subject_of(facts),
                      "inbound writes that the GPU orders itself"},
                     facts.inbound_ordered, true),
          judge_fact({Cause::async_flush_unavailable, subject_of(facts),
                      "pinned host memory that kernels reach"},
                     facts.host_memory_seen, true)};
}

}  // namespace nobounce::judge
