// A file descriptor that closes itself, for descriptors that do not leave the function they serve.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

namespace nobounce::system {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] bool valid() const { return number_ >= 0; }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// The path that a descriptor was opened by, for error texts; `descriptor N` where /proc cannot
/// say.
[[nodiscard]] std::string path_of_descriptor(int number);

}  // namespace nobounce::system
