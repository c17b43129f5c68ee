// Devices, ports, domains, regions, queues and pairs: what can be made of an adapter, and what is
// refused.
#include <sys/mman.h>

#include "conformance/verbs_rig.hpp"

namespace nobounce::conformance {

namespace {

void device_list(Run& run) {
  verbs::ibv_device** devices = nullptr;
  int count = 0;
  (void)run.verbs().get_device_list(&devices, &count);
  run.yes("some", count > 0);
  run.yes("ends with null", devices[count] == nullptr);
  const char* name = nullptr;
  (void)run.verbs().get_device_name(&name, devices[0]);
  run.yes("has a name", name != nullptr && name[0] != 0);
  int node = -1;
  int transport = -1;
  (void)run.verbs().get_device_types(&node, &transport, devices[0]);
  run.note("node type " + std::to_string(node) + ", transport " + std::to_string(transport));
  verbs::ibv_context* context = nullptr;
  (void)run.verbs().open_device(&context, devices[0]);
  (void)run.verbs().free_device_list(devices);
  verbs::ibv_context* again = nullptr;
  (void)run.quiet_verbs().get_device_list(&devices, &count);
  (void)run.verbs().open_device(&again, devices[0]);
  (void)run.quiet_verbs().free_device_list(devices);
  run.yes("two handles", context != again);
  (void)run.verbs().close_device(context);
  (void)run.verbs().close_device(again);
}

void attributes(Run& run) {
  const Adapter adapter(run);
  verbs::ibv_device_attr attr{};
  (void)run.verbs().query_device(adapter.context, &attr);
  run.number("ports", attr.phys_port_cnt);
  run.yes("pairs, queues, regions and domains",
          attr.max_qp > 1 && attr.max_cq > 1 && attr.max_mr > 1 && attr.max_pd > 1);
  run.yes("room for 64 requests of 4 pieces", attr.max_qp_wr >= 64 && attr.max_sge >= 4);
  run.yes("reads under way", attr.max_qp_rd_atom > 0 && attr.max_qp_init_rd_atom > 0);
  run.yes("regions of 1 GiB", attr.max_mr_size >= 1u << 30);
}

void ports(Run& run) {
  const Adapter adapter(run);
  for (const int number : {1, 0, 2, 255}) {
    verbs::ibv_port_attr port{};
    const int code =
        run.verbs().query_port(adapter.context, static_cast<std::uint8_t>(number), &port);
    if (code != 0) continue;
    run.number("state", static_cast<std::uint64_t>(port.state));
    run.number("link layer", port.link_layer);
    run.number("lid", port.lid);
    run.yes("mtu is one", port.active_mtu >= 1 && port.active_mtu <= port.max_mtu);
    run.yes("messages of 1 MiB", port.max_msg_sz >= 1u << 20);
  }
}

void gids(Run& run) {
  const Adapter adapter(run);
  verbs::ibv_gid_entry entry{};
  (void)run.verbs().query_gid(adapter.context, 1, adapter.gid.gid_index, &entry);
  run.number("type", entry.gid_type);
  run.yes("that index and port", entry.gid_index == adapter.gid.gid_index && entry.port_num == 1);
  (void)run.verbs().query_gid(adapter.context, 2, 0, &entry);
}

void gid_beyond(Run& run) {
  const Adapter adapter(run);
  verbs::ibv_gid_entry entry{};
  (void)run.verbs().query_gid(adapter.context, 1,
                              static_cast<std::uint32_t>(adapter.port.gid_tbl_len), &entry);
}

void domain(Run& run) {
  const Adapter adapter(run);
  verbs::ibv_pd* one = nullptr;
  verbs::ibv_pd* other = nullptr;
  (void)run.verbs().alloc_pd(&one, adapter.context);
  (void)run.verbs().alloc_pd(&other, adapter.context);
  run.yes("two", one != other);
  (void)run.verbs().dealloc_pd(one);
  (void)run.verbs().dealloc_pd(other);
}

void domain_in_use(Run& run) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  const Pages pages(4096);
  Registered region = end.enroll(pages);
  (void)run.verbs().dealloc_pd(end.domain);
  end.drop(region);
  (void)run.verbs().dealloc_pd(end.domain);
  (void)run.verbs().destroy_qp(end.pair);
  end.pair = nullptr;
  (void)run.verbs().dealloc_pd(end.domain);
  end.domain = nullptr;
}

void queue_in_use(Run& run) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  (void)run.verbs().destroy_cq(end.queue);
  (void)run.verbs().destroy_qp(end.pair);
  end.pair = nullptr;
  (void)run.verbs().destroy_cq(end.queue);
  end.queue = nullptr;
}

/// A region of whole pages with some access, or the refusal.
void region(Run& run, int access, bool read_only = false) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  const Pages pages(8192, read_only);
  verbs::ibv_mr* made = nullptr;
  if (run.verbs().reg_mr(&made, end.domain, pages.data(), pages.size(), access) != 0) return;
  std::uint32_t local = 0;
  std::uint32_t remote = 0;
  (void)run.verbs().get_keys(&local, &remote, made);
  run.yes("a local key", local != 0);
  (void)run.verbs().dereg_mr(made);
}

void region_at(Run& run, std::uint64_t offset, std::uint64_t length) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  const Pages pages(8192);
  verbs::ibv_mr* made = nullptr;
  if (run.verbs().reg_mr(&made, end.domain, pages.data() + offset, length, every_access) == 0) {
    (void)run.verbs().dereg_mr(made);
  }
}

void region_unmapped(Run& run) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  void* gone = nullptr;
  {
    const Pages pages(1u << 20);
    gone = pages.data();
  }
  verbs::ibv_mr* made = nullptr;
  if (run.verbs().reg_mr(&made, end.domain, gone, 1u << 20, every_access) == 0) {
    (void)run.verbs().dereg_mr(made);
  }
}

void regions_overlap(Run& run) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  const Pages pages(8192);
  const Registered one = end.enroll(pages);
  const Registered other = end.enroll(pages);
  run.yes("two handles", one.handle != other.handle);
  run.yes("two local keys", one.local_key != other.local_key);
  run.yes("two remote keys", one.remote_key != other.remote_key);
}

/// Keys of regions that are gone are not given out again at once.
void keys_are_fresh(Run& run) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  const Pages pages(4096);
  Registered first = end.enroll(pages);
  end.drop(first);
  const Registered second = end.enroll(pages);
  run.yes("another key", first.remote_key != second.remote_key);
}

void queue(Run& run, int entries) {
  const Adapter adapter(run);
  verbs::ibv_cq* made = nullptr;
  if (run.verbs().create_cq(&made, adapter.context, entries) != 0) return;
  verbs::ibv_wc one{};
  int count = 7;
  (void)run.verbs().poll_cq(&count, made, 1, &one);
  run.number("completions", static_cast<std::uint64_t>(count));
  (void)run.verbs().destroy_cq(made);
}

void queue_too_large(Run& run) {
  const Adapter adapter(run);
  verbs::ibv_device_attr attr{};
  (void)run.quiet_verbs().query_device(adapter.context, &attr);
  queue(run, attr.max_cqe + 1);
}

using Spoil = void (*)(verbs::ibv_qp_init_attr&, const verbs::ibv_device_attr&);

void pair(Run& run, Spoil spoil) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  verbs::ibv_device_attr attr{};
  (void)run.quiet_verbs().query_device(adapter.context, &attr);
  verbs::ibv_qp_init_attr initial{};
  initial.send_cq = end.queue;
  initial.recv_cq = end.queue;
  initial.cap = {16, 16, 2, 2, 32};
  initial.qp_type = verbs::qp_type_rc;
  spoil(initial, attr);
  verbs::ibv_qp* made = nullptr;
  if (run.verbs().create_qp(&made, end.domain, &initial) != 0) return;
  run.yes("as much as was asked for",
          initial.cap.max_send_wr >= 16 && initial.cap.max_recv_wr >= 16 &&
              initial.cap.max_send_sge >= 2 && initial.cap.max_recv_sge >= 2 &&
              initial.cap.max_inline_data >= 32);
  std::uint32_t number = 0;
  (void)run.verbs().get_qp_number(&number, made);
  run.yes("a number of its own of 24 bits", number != end.number && number < 1u << 24);
  verbs::ibv_qp_attr now{};
  verbs::ibv_qp_init_attr as_made{};
  (void)run.verbs().query_qp(made, &now, verbs::qp_mask_state, &as_made);
  run.number("state", static_cast<std::uint64_t>(now.qp_state));
  run.number("all signaled", static_cast<std::uint64_t>(as_made.sq_sig_all));
  run.number("type", static_cast<std::uint64_t>(as_made.qp_type));
  (void)run.verbs().destroy_qp(made);
}

void destroyed_at_work(Run& run) {
  Line line(run, {.not_ready_retries = 7});
  (void)post_receive(line.near, 5, {line.here(0, 64)});
  (void)post(line.near, {line.send(1)});  // nobody awaits it
  (void)run.verbs().destroy_qp(line.near.pair);
  line.near.pair = nullptr;
  await(line.near, "the queue", 0);
}

}  // namespace

void add_verbs_objects(Catalogue& all) {
  const auto add = [&](const char* name, std::function<void(Run&)> body) {
    all.add(std::string("verbs.") + name, std::move(body), adapter_alone);
  };
  add("devices", device_list);
  add("devices.attributes", attributes);
  add("ports", ports);
  add("gids", gids);
  add("gids.beyond", gid_beyond);
  add("domain", domain);
  add("domain.in_use", domain_in_use);
  add("region.no_access", [](Run& run) { region(run, 0); });
  add("region.local_write", [](Run& run) { region(run, verbs::access_local_write); });
  add("region.remote_read", [](Run& run) { region(run, verbs::access_remote_read); });
  add("region.remote_write",
      [](Run& run) { region(run, verbs::access_local_write | verbs::access_remote_write); });
  add("region.all_access", [](Run& run) { region(run, every_access); });
  add("region.remote_write_alone", [](Run& run) { region(run, verbs::access_remote_write); });
  add("region.remote_read_and_write_alone",
      [](Run& run) { region(run, verbs::access_remote_write | verbs::access_remote_read); });
  add("region.unknown_access", [](Run& run) { region(run, 1 << 12); });
  add("region.read_only_pages.to_write", [](Run& run) { region(run, every_access, true); });
  add("region.read_only_pages.to_read",
      [](Run& run) { region(run, verbs::access_remote_read, true); });
  add("region.empty", [](Run& run) { region_at(run, 0, 0); });
  add("region.of_a_byte", [](Run& run) { region_at(run, 4097, 1); });
  add("region.beyond_the_pages", [](Run& run) { region_at(run, 0, 1ull << 40); });
  add("region.around_the_end", [](Run& run) { region_at(run, 0, ~0ull); });
  add("region.unmapped", region_unmapped);
  add("region.overlapping", regions_overlap);
  add("region.keys_are_fresh", keys_are_fresh);
  add("queue", [](Run& run) { queue(run, 1); });
  add("queue.of_nothing", [](Run& run) { queue(run, 0); });
  add("queue.negative", [](Run& run) { queue(run, -1); });
  add("queue.too_large", queue_too_large);
  add("queue.in_use", queue_in_use);
  add("pair", [](Run& run) { pair(run, [](auto&, const auto&) {}); });
  add("pair.all_signaled",
      [](Run& run) { pair(run, [](auto& initial, const auto&) { initial.sq_sig_all = 1; }); });
  add("pair.too_many_sends", [](Run& run) {
    pair(run, [](auto& initial, const auto& attr) {
      initial.cap.max_send_wr = static_cast<std::uint32_t>(attr.max_qp_wr) + 1;
    });
  });
  add("pair.too_many_receives", [](Run& run) {
    pair(run, [](auto& initial, const auto& attr) {
      initial.cap.max_recv_wr = static_cast<std::uint32_t>(attr.max_qp_wr) + 1;
    });
  });
  add("pair.too_many_pieces_to_send", [](Run& run) {
    pair(run, [](auto& initial, const auto& attr) {
      initial.cap.max_send_sge = static_cast<std::uint32_t>(attr.max_sge) + 1;
    });
  });
  add("pair.too_many_pieces_to_receive", [](Run& run) {
    pair(run, [](auto& initial, const auto& attr) {
      initial.cap.max_recv_sge = static_cast<std::uint32_t>(attr.max_sge) + 1;
    });
  });
  add("pair.too_much_inline", [](Run& run) {
    pair(run, [](auto& initial, const auto&) { initial.cap.max_inline_data = 1u << 20; });
  });
  add("pair.unknown_type",
      [](Run& run) { pair(run, [](auto& initial, const auto&) { initial.qp_type = 99; }); });
  add("pair.destroyed_at_work", destroyed_at_work);
}

}  // namespace nobounce::conformance
