// A verbs table that passes everything on to another, for tests that change one thing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "system/verbs.hpp"

namespace nobounce::support {

class AroundVerbs : public system::Verbs {
 public:
  explicit AroundVerbs(system::Verbs& inner) : inner_(inner) {}
#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) \
  int method parameters override {                            \
    return inner_.method arguments;                           \
  }
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

 private:
  system::Verbs& inner_;
};

}  // namespace nobounce::support
