// Names the arguments of a generated method that it has no use for.
#pragma once

namespace nobounce::system {

template <typename... Arguments>
void unused(const Arguments&...) {}

}  // namespace nobounce::system
