// facts -> findings for transfers that a stream or a kernel of one GPU orders.
#pragma once

#include <vector>

#include <nobounce/finding.hpp>
#include "core/async_facts.hpp"

namespace nobounce::judge {

/// A stream waits for a word and then uses what a device wrote.
[[nodiscard]] std::vector<Finding> judge_stream_order(const core::AsyncFacts& facts);

/// A kernel asks through a queue in host memory, and a CPU proxy posts.
[[nodiscard]] std::vector<Finding> judge_kernel_order(const core::AsyncFacts& facts);

/// A kernel rings a drive's doorbell, and uses what the drive wrote without anybody's help.
[[nodiscard]] std::vector<Finding> judge_doorbell_order(const core::AsyncFacts& facts);

}  // namespace nobounce::judge
