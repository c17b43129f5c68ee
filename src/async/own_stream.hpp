// A stream of our own, for proofs and measurements.
#pragma once

#include <cstdint>
#include <memory>

#include <nobounce/async.hpp>

namespace nobounce::async {

class OwnStream {
 public:
  [[nodiscard]] static Result<OwnStream> make(Session& session, std::uint32_t gpu);
  struct State;
  explicit OwnStream(std::unique_ptr<State> state);
  OwnStream(OwnStream&&) noexcept;
  OwnStream& operator=(OwnStream&&) noexcept;
  ~OwnStream();

  [[nodiscard]] StreamHandle handle() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace nobounce::async
