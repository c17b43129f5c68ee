// What a command line program asks of the process around it: is this a terminal, did somebody press
// Ctrl-C, may a file be that long?
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <nobounce/result.hpp>

namespace nobounce::system {

enum class StandardStream : std::uint8_t { output, error };

[[nodiscard]] bool is_terminal(StandardStream stream);

/// Some bytes of standard input, as soon as there are any; 0: it has ended. Nothing where none came
/// within the time, or where a signal came instead.
[[nodiscard]] Result<std::optional<std::size_t>> read_standard_input(std::byte* target,
                                                                     std::size_t length_bytes,
                                                                     unsigned wait_ms);

/// A file that grows beyond the process's limit (ulimit -f) then answers EFBIG instead of ending
/// the process, which would leave temporary files behind. For the whole process.
void refuse_files_over_the_limit();

/// While one lives, the first SIGINT or SIGTERM is noted instead of ending the process; a second
/// one ends it as usual. At most one at a time per process. `signal()` is safe from any thread.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  /// The number of the signal that came, 0 if none did.
  [[nodiscard]] int signal() const;
};

}  // namespace nobounce::system
