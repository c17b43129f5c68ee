// Loading the table of libibverbs: functions by their versions, and its header's inline calls and
// macros wrapped once, here.
#include "system/live_verbs.hpp"

#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "system/live_library.hpp"

// The header turns these names into inline functions of its own.
#undef ibv_query_port
#undef ibv_reg_mr

namespace nobounce::system {

/// One pointer per function of the library, null where it has none of that version.
struct LiveVerbs::Functions {
  ::ibv_device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(::ibv_device**) = nullptr;
  const char* (*get_device_name)(::ibv_device*) = nullptr;
  ::ibv_context* (*open_device)(::ibv_device*) = nullptr;
  int (*close_device)(::ibv_context*) = nullptr;
  int (*query_device)(::ibv_context*, ::ibv_device_attr*) = nullptr;
  int (*query_port)(::ibv_context*, std::uint8_t, void*) = nullptr;
  int (*query_gid)(::ibv_context*, std::uint8_t, int, ::ibv_gid*) = nullptr;
  int (*query_gid_ex)(::ibv_context*, std::uint32_t, std::uint32_t, ::ibv_gid_entry*, std::uint32_t,
                      std::size_t) = nullptr;
  ::ibv_pd* (*alloc_pd)(::ibv_context*) = nullptr;
  int (*dealloc_pd)(::ibv_pd*) = nullptr;
  ::ibv_mr* (*reg_mr)(::ibv_pd*, void*, std::size_t, int) = nullptr;
  ::ibv_mr* (*reg_dmabuf_mr)(::ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                             int) = nullptr;
  int (*dereg_mr)(::ibv_mr*) = nullptr;
  ::ibv_cq* (*create_cq)(::ibv_context*, int, void*, ::ibv_comp_channel*, int) = nullptr;
  int (*destroy_cq)(::ibv_cq*) = nullptr;
  ::ibv_qp* (*create_qp)(::ibv_pd*, ::ibv_qp_init_attr*) = nullptr;
  int (*modify_qp)(::ibv_qp*, ::ibv_qp_attr*, int) = nullptr;
  int (*query_qp)(::ibv_qp*, ::ibv_qp_attr*, int, ::ibv_qp_init_attr*) = nullptr;
  int (*destroy_qp)(::ibv_qp*) = nullptr;
};

namespace {

// Handed to the library as they are; field by field in tests/system/verbs_abi_test.cpp.
static_assert(sizeof(verbs::ibv_device_attr) == sizeof(::ibv_device_attr));
// It grows at its end (by four bytes in Debian 13); the library is told how much of it we have.
static_assert(sizeof(verbs::ibv_port_attr) <= sizeof(::ibv_port_attr));
static_assert(sizeof(verbs::ibv_gid_entry) == sizeof(::ibv_gid_entry));
static_assert(sizeof(verbs::ibv_qp_init_attr) == sizeof(::ibv_qp_init_attr));
static_assert(sizeof(verbs::ibv_qp_attr) == sizeof(::ibv_qp_attr));
static_assert(sizeof(verbs::ibv_send_wr) == sizeof(::ibv_send_wr));
static_assert(sizeof(verbs::ibv_recv_wr) == sizeof(::ibv_recv_wr));
static_assert(sizeof(verbs::ibv_wc) == sizeof(::ibv_wc));

/// The library's own type behind one of ours.
template <typename Theirs, typename Ours>
Theirs* theirs(Ours* ours) {
  return reinterpret_cast<Theirs*>(ours);
}

/// A handle that the library answered; null means that errno says why.
template <typename Ours, typename Theirs>
int answered(Ours** target, Theirs* handle) {
  if (handle == nullptr) return errno != 0 ? errno : EIO;
  *target = reinterpret_cast<Ours*>(handle);
  return 0;
}

/// Some functions answer an errno, some -1 and leave it in errno.
int code_of(int answer) {
  if (answer >= 0) return answer;
  return errno != 0 ? errno : EIO;
}

template <typename Function>
void find(void* library, const char* symbol, const char* version, Function& function) {
  function = reinterpret_cast<Function>(find_symbol(library, symbol, version));
}

}  // namespace

LiveVerbs::LiveVerbs(void* library) : functions_(std::make_unique<Functions>()) {
  Functions& f = *functions_;
  // Version 1.0 is another, older interface under the same names.
  constexpr const char* v1 = "IBVERBS_1.1";
  find(library, "ibv_get_device_list", v1, f.get_device_list);
  find(library, "ibv_free_device_list", v1, f.free_device_list);
  find(library, "ibv_get_device_name", v1, f.get_device_name);
  find(library, "ibv_open_device", v1, f.open_device);
  find(library, "ibv_close_device", v1, f.close_device);
  find(library, "ibv_query_device", v1, f.query_device);
  find(library, "ibv_query_port", v1, f.query_port);
  find(library, "ibv_query_gid", v1, f.query_gid);
  find(library, "_ibv_query_gid_ex", "IBVERBS_1.11", f.query_gid_ex);
  find(library, "ibv_alloc_pd", v1, f.alloc_pd);
  find(library, "ibv_dealloc_pd", v1, f.dealloc_pd);
  find(library, "ibv_reg_mr", v1, f.reg_mr);
  find(library, "ibv_reg_dmabuf_mr", "IBVERBS_1.12", f.reg_dmabuf_mr);
  find(library, "ibv_dereg_mr", v1, f.dereg_mr);
  find(library, "ibv_create_cq", v1, f.create_cq);
  find(library, "ibv_destroy_cq", v1, f.destroy_cq);
  find(library, "ibv_create_qp", v1, f.create_qp);
  find(library, "ibv_modify_qp", v1, f.modify_qp);
  find(library, "ibv_query_qp", v1, f.query_qp);
  find(library, "ibv_destroy_qp", v1, f.destroy_qp);
}

LiveVerbs::~LiveVerbs() = default;

int LiveVerbs::get_device_list(ibv_device*** devices, int* count) {
  if (functions_->get_device_list == nullptr) return Verbs::get_device_list(devices, count);
  errno = 0;
  return answered(devices, functions_->get_device_list(count));
}

int LiveVerbs::free_device_list(ibv_device** devices) {
  if (functions_->free_device_list == nullptr) return Verbs::free_device_list(devices);
  functions_->free_device_list(theirs<::ibv_device*>(devices));
  return 0;
}

int LiveVerbs::get_device_name(const char** name, ibv_device* device) {
  if (functions_->get_device_name == nullptr) return Verbs::get_device_name(name, device);
  *name = functions_->get_device_name(theirs<::ibv_device>(device));
  return *name != nullptr ? 0 : EINVAL;
}

int LiveVerbs::get_device_types(int* node_type, int* transport_type, ibv_device* device) {
  const auto* real = theirs<::ibv_device>(device);
  *node_type = real->node_type;
  *transport_type = real->transport_type;
  return 0;
}

int LiveVerbs::open_device(ibv_context** context, ibv_device* device) {
  if (functions_->open_device == nullptr) return Verbs::open_device(context, device);
  errno = 0;
  return answered(context, functions_->open_device(theirs<::ibv_device>(device)));
}

int LiveVerbs::close_device(ibv_context* context) {
  if (functions_->close_device == nullptr) return Verbs::close_device(context);
  return code_of(functions_->close_device(theirs<::ibv_context>(context)));
}

int LiveVerbs::query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (functions_->query_device == nullptr) return Verbs::query_device(context, attributes);
  return code_of(functions_->query_device(theirs<::ibv_context>(context),
                                          theirs<::ibv_device_attr>(attributes)));
}

int LiveVerbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  auto* const real = theirs<::ibv_context>(context);
  *attributes = {};
  // As the header's ___ibv_query_port: by the driver's own function where the context has one,
  // since the exported one knows only the fields of an older structure.
  ::verbs_context* const extended = verbs_get_ctx_op(real, query_port);
  if (extended != nullptr) {
    return code_of(extended->query_port(real, port, theirs<::ibv_port_attr>(attributes),
                                        sizeof(verbs::ibv_port_attr)));
  }
  if (functions_->query_port == nullptr) return Verbs::query_port(context, port, attributes);
  return code_of(functions_->query_port(real, port, attributes));
}

int LiveVerbs::query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                         ibv_gid_entry* entry) {
  auto* const real = theirs<::ibv_context>(context);
  if (functions_->query_gid_ex != nullptr) {
    const int code = functions_->query_gid_ex(real, port, index, theirs<::ibv_gid_entry>(entry), 0,
                                              sizeof(::ibv_gid_entry));
    return code_of(code);
  }
  if (functions_->query_gid == nullptr) return Verbs::query_gid(context, port, index, entry);
  *entry = {};
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = verbs::gid_type_unknown;
  errno = 0;
  return code_of(functions_->query_gid(real, static_cast<std::uint8_t>(port),
                                       static_cast<int>(index), theirs<::ibv_gid>(&entry->gid)));
}

int LiveVerbs::alloc_pd(ibv_pd** domain, ibv_context* context) {
  if (functions_->alloc_pd == nullptr) return Verbs::alloc_pd(domain, context);
  errno = 0;
  return answered(domain, functions_->alloc_pd(theirs<::ibv_context>(context)));
}

int LiveVerbs::dealloc_pd(ibv_pd* domain) {
  if (functions_->dealloc_pd == nullptr) return Verbs::dealloc_pd(domain);
  return code_of(functions_->dealloc_pd(theirs<::ibv_pd>(domain)));
}

int LiveVerbs::reg_mr(ibv_mr** region, ibv_pd* domain, void* address, std::size_t length,
                      int access) {
  // The header's macro asks for the same function as long as no optional flag is used.
  if (functions_->reg_mr == nullptr) return Verbs::reg_mr(region, domain, address, length, access);
  errno = 0;
  return answered(region, functions_->reg_mr(theirs<::ibv_pd>(domain), address, length, access));
}

int LiveVerbs::reg_dmabuf_mr(ibv_mr** region, ibv_pd* domain, std::uint64_t offset,
                             std::size_t length, std::uint64_t iova, int descriptor, int access) {
  if (functions_->reg_dmabuf_mr == nullptr) {
    return Verbs::reg_dmabuf_mr(region, domain, offset, length, iova, descriptor, access);
  }
  errno = 0;
  return answered(region, functions_->reg_dmabuf_mr(theirs<::ibv_pd>(domain), offset, length, iova,
                                                    descriptor, access));
}

int LiveVerbs::dereg_mr(ibv_mr* region) {
  if (functions_->dereg_mr == nullptr) return Verbs::dereg_mr(region);
  return code_of(functions_->dereg_mr(theirs<::ibv_mr>(region)));
}

int LiveVerbs::get_keys(std::uint32_t* local_key, std::uint32_t* remote_key, ibv_mr* region) {
  const auto* real = theirs<::ibv_mr>(region);
  *local_key = real->lkey;
  *remote_key = real->rkey;
  return 0;
}

int LiveVerbs::create_cq(ibv_cq** queue, ibv_context* context, int entries) {
  if (functions_->create_cq == nullptr) return Verbs::create_cq(queue, context, entries);
  errno = 0;
  return answered(
      queue, functions_->create_cq(theirs<::ibv_context>(context), entries, nullptr, nullptr, 0));
}

int LiveVerbs::destroy_cq(ibv_cq* queue) {
  if (functions_->destroy_cq == nullptr) return Verbs::destroy_cq(queue);
  return code_of(functions_->destroy_cq(theirs<::ibv_cq>(queue)));
}

int LiveVerbs::create_qp(ibv_qp** pair, ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (functions_->create_qp == nullptr) return Verbs::create_qp(pair, domain, attributes);
  errno = 0;
  return answered(pair, functions_->create_qp(theirs<::ibv_pd>(domain),
                                              theirs<::ibv_qp_init_attr>(attributes)));
}

int LiveVerbs::modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  if (functions_->modify_qp == nullptr) return Verbs::modify_qp(pair, attributes, mask);
  return code_of(
      functions_->modify_qp(theirs<::ibv_qp>(pair), theirs<::ibv_qp_attr>(attributes), mask));
}

int LiveVerbs::query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask,
                        ibv_qp_init_attr* initial) {
  if (functions_->query_qp == nullptr) return Verbs::query_qp(pair, attributes, mask, initial);
  return code_of(functions_->query_qp(theirs<::ibv_qp>(pair), theirs<::ibv_qp_attr>(attributes),
                                      mask, theirs<::ibv_qp_init_attr>(initial)));
}

int LiveVerbs::destroy_qp(ibv_qp* pair) {
  if (functions_->destroy_qp == nullptr) return Verbs::destroy_qp(pair);
  return code_of(functions_->destroy_qp(theirs<::ibv_qp>(pair)));
}

int LiveVerbs::get_qp_number(std::uint32_t* number, ibv_qp* pair) {
  *number = theirs<::ibv_qp>(pair)->qp_num;
  return 0;
}

int LiveVerbs::post_send(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** refused) {
  auto* const real = theirs<::ibv_qp>(pair);
  return code_of(real->context->ops.post_send(real, theirs<::ibv_send_wr>(requests),
                                              theirs<::ibv_send_wr*>(refused)));
}

int LiveVerbs::post_recv(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** refused) {
  auto* const real = theirs<::ibv_qp>(pair);
  return code_of(real->context->ops.post_recv(real, theirs<::ibv_recv_wr>(requests),
                                              theirs<::ibv_recv_wr*>(refused)));
}

int LiveVerbs::poll_cq(int* count, ibv_cq* queue, int capacity, ibv_wc* completions) {
  auto* const real = theirs<::ibv_cq>(queue);
  errno = 0;
  const int found = real->context->ops.poll_cq(real, capacity, theirs<::ibv_wc>(completions));
  if (found < 0) return errno != 0 ? errno : EIO;
  *count = found;
  return 0;
}

int LiveVerbs::close_dmabuf(int descriptor) {
  return ::close(descriptor) == 0 ? 0 : errno;
}

}  // namespace nobounce::system
