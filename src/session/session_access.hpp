// The way of modules above the session to what it is made of.
#pragma once

#include "session/session_state.hpp"

namespace nobounce::session {

struct SessionAccess {
  [[nodiscard]] static SessionState& state(Session& session) { return *session.state_; }
};

}  // namespace nobounce::session
