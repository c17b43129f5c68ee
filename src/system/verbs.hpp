// libibverbs as a table: one method per function, macro or inline call that we use; the base class
// is the absent default (ENOSYS).
#pragma once

#include "system/verbs_types.hpp"

namespace nobounce::system {

/// Thread-safe as the library is; a handle is destroyed by nobody while others use it. Descriptors
/// of dma-bufs come from cuMemGetHandleForAddressRange and are closed here: registration keeps what
/// it needs.
class Verbs {
 public:
  using ibv_device = verbs::ibv_device;
  using ibv_context = verbs::ibv_context;
  using ibv_pd = verbs::ibv_pd;
  using ibv_mr = verbs::ibv_mr;
  using ibv_cq = verbs::ibv_cq;
  using ibv_qp = verbs::ibv_qp;
  using ibv_device_attr = verbs::ibv_device_attr;
  using ibv_port_attr = verbs::ibv_port_attr;
  using ibv_gid_entry = verbs::ibv_gid_entry;
  using ibv_qp_init_attr = verbs::ibv_qp_init_attr;
  using ibv_qp_attr = verbs::ibv_qp_attr;
  using ibv_send_wr = verbs::ibv_send_wr;
  using ibv_recv_wr = verbs::ibv_recv_wr;
  using ibv_wc = verbs::ibv_wc;

  Verbs() = default;
  Verbs(const Verbs&) = delete;
  Verbs& operator=(const Verbs&) = delete;
  virtual ~Verbs() = default;

#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) virtual int method parameters;
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS
};

}  // namespace nobounce::system
