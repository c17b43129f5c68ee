// Sets up and takes down what sequences of verbs begin with.
#include "conformance/verbs_rig.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace nobounce::conformance {

namespace {

constexpr std::uint64_t patience_ns = 10'000'000'000;
constexpr std::uint64_t surplus_ns = 20'000'000;

}  // namespace

Pages::Pages(std::size_t bytes, bool read_only) : size_(bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  data_ = static_cast<std::byte*>(mapped);
  if (read_only) (void)::mprotect(mapped, bytes, PROT_READ);
}

Pages::~Pages() {
  (void)::munmap(data_, size_);
}

void Pages::plant(std::uint64_t seed) const {
  const std::vector<std::byte> data = pattern(size_, seed);
  std::memcpy(data_, data.data(), size_);
}

Adapter::Adapter(Run& of_run) : run(of_run), quiet(of_run.quiet_verbs()) {
  verbs::ibv_device** devices = nullptr;
  int count = 0;
  if (quiet.get_device_list(&devices, &count) != 0 || count == 0) return;
  (void)quiet.open_device(&context, devices[0]);
  (void)quiet.free_device_list(devices);
  if (context == nullptr) {
    run.note("no adapter to begin with");
    return;
  }
  (void)quiet.query_port(context, 1, &port);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    verbs::ibv_gid_entry entry{};
    if (quiet.query_gid(context, 1, static_cast<std::uint32_t>(i), &entry) != 0) continue;
    const bool none = std::all_of(std::begin(entry.gid.raw), std::end(entry.gid.raw),
                                  [](std::uint8_t byte) { return byte == 0; });
    if (none) continue;
    gid = entry;
    if (entry.gid_type == verbs::gid_type_roce_v2) break;
  }
}

Adapter::~Adapter() {
  if (context != nullptr) (void)quiet.close_device(context);
}

QueueEnd::QueueEnd(Adapter& of_adapter, const EndOptions& with)
    : adapter(of_adapter), options(with) {
  system::Verbs& quiet = adapter.quiet;
  (void)quiet.alloc_pd(&domain, adapter.context);
  (void)quiet.create_cq(&queue, adapter.context, 128);
  verbs::ibv_qp_init_attr initial{};
  initial.send_cq = queue;
  initial.recv_cq = queue;
  initial.cap = {options.sends, 32, options.pieces, options.pieces, options.inline_bytes};
  initial.qp_type = verbs::qp_type_rc;
  initial.sq_sig_all = options.all_signaled ? 1 : 0;
  if (quiet.create_qp(&pair, domain, &initial) != 0) {
    adapter.run.note("no pair to begin with");
    return;
  }
  capacity = initial.cap;
  (void)quiet.get_qp_number(&number, pair);
}

QueueEnd::~QueueEnd() {
  drop_pair();
  for (verbs::ibv_mr* region : regions_) (void)adapter.quiet.dereg_mr(region);
  if (queue != nullptr) (void)adapter.quiet.destroy_cq(queue);
  if (domain != nullptr) (void)adapter.quiet.dealloc_pd(domain);
}

void QueueEnd::drop_pair() {
  if (pair != nullptr) (void)adapter.quiet.destroy_qp(pair);
  pair = nullptr;
}

Registered QueueEnd::enroll(const Pages& pages, int access) {
  Registered region;
  const int code = adapter.quiet.reg_mr(&region.handle, domain, pages.data(), pages.size(), access);
  if (code != 0) {
    adapter.run.note("no region to begin with: " + std::to_string(code));
    return region;
  }
  region.address = pages.address();
  (void)adapter.quiet.get_keys(&region.local_key, &region.remote_key, region.handle);
  regions_.push_back(region.handle);
  return region;
}

void QueueEnd::drop(Registered& region) {
  regions_.erase(std::find(regions_.begin(), regions_.end(), region.handle));
  (void)adapter.run.verbs().dereg_mr(region.handle);
}

verbs::ibv_qp_attr QueueEnd::init_attributes() const {
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_init;
  attributes.port_num = 1;
  attributes.qp_access_flags = static_cast<unsigned>(options.access);
  return attributes;
}

verbs::ibv_qp_attr QueueEnd::rtr_attributes(const QueueEnd& far) const {
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_rtr;
  attributes.path_mtu = verbs::mtu_1024;
  attributes.dest_qp_num = far.number;
  attributes.rq_psn = 7;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = options.not_ready_timer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.dlid = adapter.port.lid;
  attributes.ah_attr.grh.dgid = adapter.gid.gid;
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(adapter.gid.gid_index);
  attributes.ah_attr.grh.hop_limit = 64;
  return attributes;
}

verbs::ibv_qp_attr QueueEnd::rts_attributes() const {
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_rts;
  attributes.timeout = options.timeout;
  attributes.retry_cnt = options.retries;
  attributes.rnr_retry = options.not_ready_retries;
  attributes.sq_psn = 7;
  attributes.max_rd_atomic = options.reads;
  return attributes;
}

int QueueEnd::change(verbs::ibv_qp_attr attributes, int mask) {
  return adapter.run.verbs().modify_qp(pair, &attributes, mask);
}

void QueueEnd::state(std::string_view name) {
  verbs::ibv_qp_attr attributes{};
  verbs::ibv_qp_init_attr initial{};
  (void)adapter.run.verbs().query_qp(pair, &attributes, verbs::qp_mask_state, &initial);
  adapter.run.number(std::string(name) + " is in state",
                     static_cast<std::uint64_t>(attributes.qp_state));
}

void join_to(QueueEnd& end, const QueueEnd& far, std::uint32_t number) {
  system::Verbs& quiet = end.adapter.quiet;
  verbs::ibv_qp_attr init = end.init_attributes();
  verbs::ibv_qp_attr rtr = end.rtr_attributes(far);
  verbs::ibv_qp_attr rts = end.rts_attributes();
  rtr.dest_qp_num = number;
  if (quiet.modify_qp(end.pair, &init, init_mask) != 0 ||
      quiet.modify_qp(end.pair, &rtr, rtr_mask) != 0 ||
      quiet.modify_qp(end.pair, &rts, rts_mask) != 0) {
    end.adapter.run.note("cannot be joined");
  }
}

void join(QueueEnd& one, QueueEnd& other) {
  join_to(one, other, other.number);
  join_to(other, one, one.number);
}

int post(QueueEnd& end, const std::vector<Ask>& chain) {
  std::vector<verbs::ibv_send_wr> requests(chain.size());
  std::vector<std::vector<verbs::ibv_sge>> pieces(chain.size());
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Ask& ask = chain[i];
    pieces[i] = ask.pieces;
    verbs::ibv_send_wr& request = requests[i];
    request = {};
    request.wr_id = ask.id;
    request.next = i + 1 < chain.size() ? &requests[i + 1] : nullptr;
    request.sg_list = pieces[i].data();
    request.num_sge = static_cast<int>(ask.pieces.size());
    request.opcode = ask.opcode;
    request.send_flags = ask.flags;
    request.imm_data = ask.imm;
    request.wr.rdma.remote_addr = ask.remote;
    request.wr.rdma.rkey = ask.remote_key;
  }
  verbs::ibv_send_wr* refused = nullptr;
  const int code = end.adapter.run.verbs().post_send(end.pair, requests.data(), &refused);
  if (code != 0 && refused != nullptr) {
    end.adapter.run.number("the first refused is request",
                           static_cast<std::uint64_t>(refused - requests.data()) + 1);
  }
  return code;
}

int post_receive(QueueEnd& end, std::uint64_t id, std::vector<verbs::ibv_sge> pieces) {
  verbs::ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  verbs::ibv_recv_wr* refused = nullptr;
  return end.adapter.run.verbs().post_recv(end.pair, &request, &refused);
}

void await(QueueEnd& end, std::string_view name, std::size_t wanted) {
  Run& run = end.adapter.run;
  std::vector<verbs::ibv_wc> all;
  int code = 0;
  const auto look = [&] {
    verbs::ibv_wc one{};
    int count = 0;
    while ((code = end.adapter.quiet.poll_cq(&count, end.queue, 1, &one)) == 0 && count == 1) {
      all.push_back(one);
    }
  };
  const auto until = [&](std::size_t many, std::uint64_t within_ns) {
    const auto enough = [&] {
      look();
      return all.size() >= many || code != 0;
    };
    (void)run.host.workers().wait(enough, run.host.clock().now_ns() + within_ns);
  };
  if (wanted > 0) until(wanted, patience_ns);
  until(wanted + 1, surplus_ns);
  run.trace.call("ibv_poll_cq", std::to_string(code));
  for (const verbs::ibv_wc& one : all) {
    std::string text = std::string(name) + ": " + std::to_string(one.wr_id) + " ends with status " +
                       std::to_string(one.status);
    if (one.status == verbs::wc_success) {
      text += ", opcode " + std::to_string(one.opcode);
      if ((one.opcode & verbs::wc_op_recv) != 0) {
        text += ", " + std::to_string(one.byte_len) + " bytes";
        if ((one.wc_flags & verbs::wc_with_imm) != 0) text += ", " + std::to_string(one.imm_data);
      }
    }
    run.note(text);
  }
  if (all.size() != wanted) {
    run.note(std::string(name) + ": " + std::to_string(all.size()) + " of " +
             std::to_string(wanted) + " completions");
  }
}

Line::Line(Run& of_run, const EndOptions& near_options, const EndOptions& far_options,
           std::size_t bytes)
    : run(of_run),
      adapter(of_run),
      source(bytes),
      target(bytes),
      near(adapter, near_options),
      far(adapter, far_options) {
  source.plant(1);
  target.plant(2);
  join(near, far);
  ours = near.enroll(source);
  theirs = far.enroll(target);
}

verbs::ibv_sge Line::here(std::uint64_t offset, std::uint32_t bytes) const {
  return {ours.address + offset, bytes, ours.local_key};
}

verbs::ibv_sge Line::there(std::uint64_t offset, std::uint32_t bytes) const {
  return {theirs.address + offset, bytes, theirs.local_key};
}

Ask Line::write(std::uint64_t id, std::uint32_t bytes) const {
  Ask ask;
  ask.id = id;
  ask.pieces = {here(0, bytes)};
  ask.remote = theirs.address;
  ask.remote_key = theirs.remote_key;
  return ask;
}

Ask Line::read(std::uint64_t id, std::uint32_t bytes) const {
  Ask ask = write(id, bytes);
  ask.opcode = verbs::wr_rdma_read;
  return ask;
}

Ask Line::send(std::uint64_t id, std::uint32_t bytes) const {
  Ask ask = write(id, bytes);
  ask.opcode = verbs::wr_send;
  return ask;
}

void Line::ask(const Ask& ask) {
  if (post(near, {ask}) == 0) await(near, "asked", 1);
  run.bytes("here", source.bytes());
  run.bytes("there", target.bytes());
}

}  // namespace nobounce::conformance
