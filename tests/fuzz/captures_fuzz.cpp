// Fuzzes recognition: all parsers are offered every line, and the rules judge what they leave.
// `direct` needs a sign of use.
#include <algorithm>

#include "fuzz/capture_fuzz.hpp"
#include "judge/explain.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nobounce;
  test::fuzz_captures("", data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  core::Captures read = test::read_in_chunks("", text, text.size() + 1);
  const bool use =
      std::any_of(read.signs.begin(), read.signs.end(), [](const core::CaptureSign& s) {
        using core::SignKind;
        return s.kind == SignKind::peer_use || s.kind == SignKind::peer_measured ||
               s.kind == SignKind::peer_bandwidth || s.kind == SignKind::peer_data_good ||
               s.kind == SignKind::net_use || s.kind == SignKind::buffer_registered ||
               s.kind == SignKind::registered_bytes || s.kind == SignKind::protocol ||
               s.kind == SignKind::driver_counter || s.kind == SignKind::storage_direct;
      });
  const core::Explanation explained = judge::explain(std::move(read));
  for (const core::ExplainedVerdict& row : explained.verdicts) {
    test::require(!row.evidence.empty() && !row.reason.empty());
    if (row.verdict == Verdict::direct) test::require(use);
  }
  return 0;
}
