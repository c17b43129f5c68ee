// States of queue pairs: which change needs what, what is refused, and what may be posted in each.
#include "conformance/verbs_rig.hpp"

namespace nobounce::conformance {

namespace {

/// Two pairs that nobody has joined yet.
struct Two {
  explicit Two(Run& of_run) : run(of_run), adapter(of_run), near(adapter), far(adapter) {}
  int init() { return near.change(near.init_attributes(), init_mask); }
  int rtr() { return near.change(near.rtr_attributes(far), rtr_mask); }
  int rts() { return near.change(near.rts_attributes(), rts_mask); }
  /// To one of the states, by way of those before it, without a trace.
  void go(int state) {
    verbs::ibv_qp_attr init_attr = near.init_attributes();
    verbs::ibv_qp_attr rtr_attr = near.rtr_attributes(far);
    verbs::ibv_qp_attr rts_attr = near.rts_attributes();
    verbs::ibv_qp_attr error{};
    error.qp_state = verbs::qp_error;
    int code = 0;
    const auto change = [&](verbs::ibv_qp_attr& attr, int mask) {
      if (code == 0) code = adapter.quiet.modify_qp(near.pair, &attr, mask);
    };
    if (state >= verbs::qp_init) change(init_attr, init_mask);
    if (state >= verbs::qp_rtr) change(rtr_attr, rtr_mask);
    if (state >= verbs::qp_rts) change(rts_attr, rts_mask);
    if (state == verbs::qp_error) change(error, verbs::qp_mask_state);
    if (code != 0) run.note("cannot get there: " + std::to_string(code));
  }

  Run& run;
  Adapter adapter;
  QueueEnd near;
  QueueEnd far;
};

/// All the way, and what the pair says of itself at the end.
void all_the_way(Run& run) {
  Two two(run);
  two.near.state("made");
  (void)two.init();
  two.near.state("then");
  (void)two.rtr();
  two.near.state("then");
  (void)two.rts();
  verbs::ibv_qp_attr now{};
  verbs::ibv_qp_init_attr initial{};
  (void)run.verbs().query_qp(two.near.pair, &now, init_mask | rtr_mask | rts_mask, &initial);
  run.number("state", static_cast<std::uint64_t>(now.qp_state));
  run.number("port", now.port_num);
  run.number("access", now.qp_access_flags);
  run.number("path mtu", static_cast<std::uint64_t>(now.path_mtu));
  run.yes("joined to the other", now.dest_qp_num == two.far.number);
  run.number("receives from", now.rq_psn);
  run.number("sends from", now.sq_psn);
  run.number("timeout", now.timeout);
  run.number("retries", now.retry_cnt);
  run.number("retries for want of a receive", now.rnr_retry);
  run.number("wait for a receive", now.min_rnr_timer);
}

/// One change with parts of its mask left out, one at a time, and then whole.
void each_part(Run& run, int from, int mask) {
  for (int bit = 1; bit != 0 && bit <= mask; bit <<= 1) {
    if ((mask & bit) == 0 || bit == verbs::qp_mask_state) continue;
    Two two(run);
    two.go(from);
    run.number("without", static_cast<std::uint64_t>(bit));
    const verbs::ibv_qp_attr attributes = from == verbs::qp_reset ? two.near.init_attributes()
                                          : from == verbs::qp_init
                                              ? two.near.rtr_attributes(two.far)
                                              : two.near.rts_attributes();
    (void)two.near.change(attributes, mask & ~bit);
    two.near.state("it");
  }
}

/// From one state to each of the others with nothing but the state, or what the change needs.
void from_state(Run& run, int from) {
  for (const int to : {verbs::qp_reset, verbs::qp_init, verbs::qp_rtr, verbs::qp_rts, 7}) {
    Two two(run);
    two.go(from);
    run.note("to " + std::to_string(to));
    verbs::ibv_qp_attr attributes{};
    int mask = verbs::qp_mask_state;
    if (to == verbs::qp_init) {
      attributes = two.near.init_attributes();
      mask = init_mask;
    } else if (to == verbs::qp_rtr) {
      attributes = two.near.rtr_attributes(two.far);
      mask = rtr_mask;
    } else if (to == verbs::qp_rts && from != verbs::qp_rts) {
      attributes = two.near.rts_attributes();
      mask = rts_mask;
    }
    attributes.qp_state = to;
    (void)two.near.change(attributes, mask);
    two.near.state("it");
  }
}

void to_error(Run& run) {
  for (const int from : {verbs::qp_reset, verbs::qp_init, verbs::qp_rtr, verbs::qp_rts}) {
    Two two(run);
    two.go(from);
    verbs::ibv_qp_attr attributes{};
    attributes.qp_state = verbs::qp_error;
    (void)two.near.change(attributes, verbs::qp_mask_state);
    two.near.state("it");
  }
}

using Wrong = void (*)(verbs::ibv_qp_attr&);

void wrong(Run& run, int from, Wrong spoil) {
  Two two(run);
  two.go(from);
  verbs::ibv_qp_attr attributes = from == verbs::qp_reset  ? two.near.init_attributes()
                                  : from == verbs::qp_init ? two.near.rtr_attributes(two.far)
                                                           : two.near.rts_attributes();
  const int mask = from == verbs::qp_reset  ? init_mask
                   : from == verbs::qp_init ? rtr_mask
                                            : rts_mask;
  spoil(attributes);
  (void)two.near.change(attributes, mask);
  two.near.state("it");
}

void surplus(Run& run) {
  Two two(run);
  (void)two.near.change(two.near.init_attributes(), init_mask | verbs::qp_mask_timeout);
  two.near.state("it");
  (void)two.init();
  (void)two.near.change(two.near.rtr_attributes(two.far), rtr_mask | verbs::qp_mask_retry_count);
  two.near.state("it");
}

void init_again(Run& run) {
  Two two(run);
  (void)two.init();
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_init;
  (void)two.near.change(attributes, verbs::qp_mask_state);
  attributes.qp_access_flags = verbs::access_remote_read;
  (void)two.near.change(attributes, verbs::qp_mask_state | verbs::qp_mask_access_flags);
  verbs::ibv_qp_attr now{};
  verbs::ibv_qp_init_attr initial{};
  (void)run.verbs().query_qp(two.near.pair, &now, init_mask, &initial);
  run.number("access", now.qp_access_flags);
  run.number("port", now.port_num);
}

void access_on_the_way(Run& run) {
  Two two(run);
  two.go(verbs::qp_rts);
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_rts;
  attributes.qp_access_flags = verbs::access_remote_read;
  attributes.min_rnr_timer = 3;
  (void)two.near.change(attributes, verbs::qp_mask_state | verbs::qp_mask_access_flags |
                                        verbs::qp_mask_min_rnr_timer);
  // Without naming the state it is the present one that is kept.
  attributes.qp_access_flags = verbs::access_remote_write;
  (void)two.near.change(attributes, verbs::qp_mask_access_flags);
  // The path is fixed by now.
  attributes.path_mtu = verbs::mtu_256;
  (void)two.near.change(attributes, verbs::qp_mask_state | verbs::qp_mask_path_mtu);
  verbs::ibv_qp_attr now{};
  verbs::ibv_qp_init_attr initial{};
  (void)run.verbs().query_qp(two.near.pair, &now, init_mask | rtr_mask, &initial);
  run.number("access", now.qp_access_flags);
  run.number("path mtu", static_cast<std::uint64_t>(now.path_mtu));
  run.number("wait for a receive", now.min_rnr_timer);
}

void used_again(Run& run) {
  Line line(run);
  for (QueueEnd* end : {&line.near, &line.far}) {
    verbs::ibv_qp_attr attributes{};
    attributes.qp_state = verbs::qp_error;
    (void)end->change(attributes, verbs::qp_mask_state);
    attributes.qp_state = verbs::qp_reset;
    (void)end->change(attributes, verbs::qp_mask_state);
    end->state("it");
  }
  join(line.near, line.far);
  line.ask(line.write(1));
}

/// What was posted before a pair was reset is forgotten.
void reset_forgets(Run& run) {
  Line line(run);
  (void)post_receive(line.near, 5, {line.here(0, 64)});
  (void)post(line.near, {line.send(1)});
  for (QueueEnd* end : {&line.near, &line.far}) {
    verbs::ibv_qp_attr attributes{};
    attributes.qp_state = verbs::qp_reset;
    (void)end->change(attributes, verbs::qp_mask_state);
  }
  await(line.near, "near", 0);
  join(line.near, line.far);
  (void)post_receive(line.far, 9, {line.there(0, 64)});
  (void)post(line.near, {line.send(2)});
  await(line.near, "near", 1);
  await(line.far, "far", 1);
}

void send_in(Run& run, int state) {
  Two two(run);
  two.go(state);
  const Pages pages(4096);
  const Registered region = two.near.enroll(pages);
  Ask ask;
  ask.pieces = {{region.address, 64, region.local_key}};
  ask.remote = region.address;
  ask.remote_key = region.remote_key;
  (void)post(two.near, {ask});
  if (state == verbs::qp_error) await(two.near, "it", 1);
}

void receive_in(Run& run, int state) {
  Two two(run);
  two.go(state);
  const Pages pages(4096);
  const Registered region = two.near.enroll(pages);
  (void)post_receive(two.near, 1, {{region.address, 64, region.local_key}});
  await(two.near, "it", state == verbs::qp_error ? 1 : 0);
}

}  // namespace

void add_verbs_states(Catalogue& all) {
  const auto add = [&](const char* name, std::function<void(Run&)> body) {
    all.add(std::string("verbs.") + name, std::move(body), adapter_alone);
  };
  add("states", all_the_way);
  add("states.init.each_part", [](Run& run) { each_part(run, verbs::qp_reset, init_mask); });
  add("states.rtr.each_part", [](Run& run) { each_part(run, verbs::qp_init, rtr_mask); });
  add("states.rts.each_part", [](Run& run) { each_part(run, verbs::qp_rtr, rts_mask); });
  add("states.from_reset", [](Run& run) { from_state(run, verbs::qp_reset); });
  add("states.from_init", [](Run& run) { from_state(run, verbs::qp_init); });
  add("states.from_rtr", [](Run& run) { from_state(run, verbs::qp_rtr); });
  add("states.from_rts", [](Run& run) { from_state(run, verbs::qp_rts); });
  add("states.from_error", [](Run& run) { from_state(run, verbs::qp_error); });
  add("states.to_error", to_error);
  add("states.init.no_port",
      [](Run& run) { wrong(run, verbs::qp_reset, [](auto& attr) { attr.port_num = 0; }); });
  add("states.init.wrong_port",
      [](Run& run) { wrong(run, verbs::qp_reset, [](auto& attr) { attr.port_num = 2; }); });
  add("states.init.wrong_pkey",
      [](Run& run) { wrong(run, verbs::qp_reset, [](auto& attr) { attr.pkey_index = 9999; }); });
  add("states.rtr.no_mtu",
      [](Run& run) { wrong(run, verbs::qp_init, [](auto& attr) { attr.path_mtu = 0; }); });
  add("states.rtr.wrong_mtu",
      [](Run& run) { wrong(run, verbs::qp_init, [](auto& attr) { attr.path_mtu = 9; }); });
  add("states.rtr.wrong_gid_index", [](Run& run) {
    wrong(run, verbs::qp_init, [](auto& attr) { attr.ah_attr.grh.sgid_index = 255; });
  });
  add("states.rtr.not_global",
      [](Run& run) { wrong(run, verbs::qp_init, [](auto& attr) { attr.ah_attr.is_global = 0; }); });
  add("states.rtr.wrong_port",
      [](Run& run) { wrong(run, verbs::qp_init, [](auto& attr) { attr.ah_attr.port_num = 2; }); });
  add("states.rts.wrong_timeout",
      [](Run& run) { wrong(run, verbs::qp_rtr, [](auto& attr) { attr.timeout = 32; }); });
  add("states.rts.wrong_retries",
      [](Run& run) { wrong(run, verbs::qp_rtr, [](auto& attr) { attr.retry_cnt = 8; }); });
  add("states.rts.wrong_not_ready_retries",
      [](Run& run) { wrong(run, verbs::qp_rtr, [](auto& attr) { attr.rnr_retry = 8; }); });
  add("states.surplus", surplus);
  add("states.init_again", init_again);
  add("states.access_on_the_way", access_on_the_way);
  add("states.used_again", used_again);
  add("states.reset_forgets", reset_forgets);
  add("post.send.reset", [](Run& run) { send_in(run, verbs::qp_reset); });
  add("post.send.init", [](Run& run) { send_in(run, verbs::qp_init); });
  add("post.send.rtr", [](Run& run) { send_in(run, verbs::qp_rtr); });
  add("post.send.error", [](Run& run) { send_in(run, verbs::qp_error); });
  add("post.receive.reset", [](Run& run) { receive_in(run, verbs::qp_reset); });
  add("post.receive.init", [](Run& run) { receive_in(run, verbs::qp_init); });
  add("post.receive.error", [](Run& run) { receive_in(run, verbs::qp_error); });
}

}  // namespace nobounce::conformance
