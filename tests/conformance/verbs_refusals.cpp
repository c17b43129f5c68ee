// Requests that end badly: keys, bounds, access, length, silence; which status, at which end, and
// what becomes of those behind.
#include "conformance/verbs_rig.hpp"

namespace nobounce::conformance {

namespace {

using Spoil = void (*)(Line&, Ask&);

/// One spoiled request with a good one behind it: its status, the flush, both states, no byte
/// moved.
void refused(Run& run, bool reading, Spoil spoil) {
  Line line(run);
  Ask ask = reading ? line.read(1) : line.write(1);
  spoil(line, ask);
  (void)post(line.near, {ask, line.write(2)});
  await(line.near, "asked", 2);
  run.bytes("here", line.source.bytes());
  run.bytes("there", line.target.bytes());
  line.near.state("near");
  (void)post(line.near, {line.write(3)});
  await(line.near, "asked", 1);
}

/// A pair that was not opened for it.
void not_opened_for(Run& run, bool reading) {
  EndOptions closed;
  closed.access = verbs::access_local_write |
                  (reading ? verbs::access_remote_write : verbs::access_remote_read);
  Line line(run, {}, closed);
  (void)post_receive(line.far, 70, {line.there(0, 64)});
  line.ask(reading ? line.read(1) : line.write(1));
  await(line.far, "far", 1);
  line.far.state("far");
}

/// What the far end has posted when it refuses somebody.
void refuser(Run& run) {
  Line line(run);
  (void)post_receive(line.far, 70, {line.there(0, 64)});
  (void)post_receive(line.far, 71, {line.there(64, 64)});
  Ask ask = line.write(1);
  ask.remote_key ^= 0x5a5a5a;
  line.ask(ask);
  await(line.far, "far", 2);
  line.far.state("far");
}

void receive_spoiled(Run& run, Spoil spoil, std::uint32_t room) {
  Line line(run, {.not_ready_retries = 2});
  Ask receive;
  receive.pieces = {line.there(0, room)};
  spoil(line, receive);
  (void)post_receive(line.far, 70, receive.pieces);
  (void)post_receive(line.far, 71, {line.there(64, 64)});
  line.ask(line.send(1));
  await(line.far, "far", 2);
  line.near.state("near");
  line.far.state("far");
}

void dropped_below_a_receive(Run& run) {
  Line line(run, {.not_ready_retries = 2});
  (void)post_receive(line.far, 70, {line.there(0, 64)});
  line.far.drop(line.theirs);
  (void)post(line.near, {line.send(1)});
  await(line.near, "sent", 1);
  await(line.far, "far", 1);
}

/// A send waits for its receive, and its memory goes meanwhile.
void dropped_below_a_send(Run& run) {
  Line line(run, {.not_ready_timer = 0}, {.not_ready_timer = 0});
  (void)post(line.near, {line.send(1)});
  (void)run.host.workers().wait([] { return false; }, run.host.clock().now_ns() + 100'000'000);
  line.near.drop(line.ours);
  (void)post_receive(line.far, 70, {line.there(0, 64)});
  await(line.near, "sent", 1);
  line.near.state("near");
}

void nobody_receives(Run& run, std::uint8_t retries) {
  Line line(run, {.not_ready_retries = retries});
  (void)post(line.near, {line.send(1), line.write(2)});
  await(line.near, "sent", 2);
  line.near.state("near");
  line.far.state("far");
}

void nobody_there(Run& run) {
  Adapter adapter(run);
  QueueEnd near(adapter, {.timeout = 10, .retries = 2});
  std::uint32_t gone = 0;
  {
    const QueueEnd far(adapter);
    gone = far.number;
  }
  join_to(near, near, gone);
  const Pages pages(4096);
  const Registered region = near.enroll(pages);
  Ask ask;
  ask.pieces = {{region.address, 64, region.local_key}};
  ask.remote = region.address;
  ask.remote_key = region.remote_key;
  Ask behind = ask;
  behind.id = 2;
  (void)post(near, {ask, behind});
  await(near, "asked", 2);
  near.state("near");
}

void far_end_goes(Run& run) {
  Line line(run, {.timeout = 10, .retries = 2});
  line.far.drop_pair();
  (void)post(line.near, {line.write(1)});
  await(line.near, "asked", 1);
}

void far_end_in_error(Run& run) {
  Line line(run, {.timeout = 10, .retries = 2});
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_error;
  (void)line.far.change(attributes, verbs::qp_mask_state);
  (void)post(line.near, {line.write(1)});
  await(line.near, "asked", 1);
}

void flushed(Run& run) {
  Line line(run);
  for (std::uint64_t id = 70; id < 73; ++id) {
    (void)post_receive(line.near, id, {line.here(0, 64)});
  }
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_error;
  (void)line.near.change(attributes, verbs::qp_mask_state);
  await(line.near, "flushed", 3);
  Ask quiet = line.write(2);
  quiet.flags = 0;  // told all the same
  (void)post(line.near, {line.write(1), quiet});
  await(line.near, "flushed", 2);
}

void behind_an_error(Run& run) {
  Line line(run);
  std::vector<Ask> chain{line.write(1), line.write(2), line.write(3), line.read(4), line.write(5)};
  chain[0].flags = 0;
  chain[1].remote_key ^= 0x5a5a5a;
  chain[2].flags = 0;
  (void)post(line.near, chain);
  await(line.near, "asked", 4);
}

/// Far more than were asked for; adapters give as many or more.
constexpr std::size_t too_many = 4096;

void queue_full(Run& run) {
  Line line(run, {.sends = 4});
  verbs::ibv_sge piece = line.here(0, 16);
  std::vector<verbs::ibv_send_wr> requests(too_many);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {};
    requests[i].wr_id = 1;
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
    requests[i].sg_list = &piece;
    requests[i].num_sge = 1;
    requests[i].opcode = verbs::wr_rdma_write;
    requests[i].send_flags = i == 0 ? verbs::send_signaled : 0;
    requests[i].wr.rdma.remote_addr = line.theirs.address;
    requests[i].wr.rdma.rkey = line.theirs.remote_key;
  }
  verbs::ibv_send_wr* left = nullptr;
  (void)run.verbs().post_send(line.near.pair, requests.data(), &left);
  run.yes("as many as was said, and not all",
          left != nullptr && left - requests.data() >= line.near.capacity.max_send_wr);
  await(line.near, "asked", 1);
}

void receive_queue_full(Run& run) {
  Line line(run);
  verbs::ibv_sge piece = line.there(0, 16);
  std::vector<verbs::ibv_recv_wr> requests(too_many);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].wr_id = 1;
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
    requests[i].sg_list = &piece;
    requests[i].num_sge = 1;
  }
  verbs::ibv_recv_wr* left = nullptr;
  (void)run.verbs().post_recv(line.far.pair, requests.data(), &left);
  run.yes("as many as was said, and not all",
          left != nullptr && left - requests.data() >= line.far.capacity.max_recv_wr);
}

using Post = void (*)(Line&, Ask&);

/// Refused when it is posted; the one before it is served, the one behind it never seen.
void refused_at_once(Run& run, Post spoil) {
  Line line(run);
  Ask ask = line.write(2);
  spoil(line, ask);
  (void)post(line.near, {line.write(1, 16), ask, line.write(3)});
  await(line.near, "asked", 1);
  line.near.state("near");
}

void too_many_pieces(Line& line, Ask& ask) {
  ask.pieces.assign(line.near.capacity.max_send_sge + 1, line.here(0, 1));
}

void receive_of_too_many_pieces(Run& run) {
  Line line(run);
  (void)post_receive(
      line.far, 1,
      std::vector<verbs::ibv_sge>(line.far.capacity.max_recv_sge + 1, line.there(0, 1)));
}

}  // namespace

void add_verbs_refusals(Catalogue& all) {
  const auto add = [&](const char* name, std::function<void(Run&)> body) {
    all.add(std::string("verbs.") + name, std::move(body), adapter_alone);
  };
  const auto both = [&](const std::string& name, Spoil spoil) {
    add(("refused.write." + name).c_str(), [spoil](Run& run) { refused(run, false, spoil); });
    add(("refused.read." + name).c_str(), [spoil](Run& run) { refused(run, true, spoil); });
  };
  both("unknown_remote_key", [](Line&, Ask& ask) { ask.remote_key ^= 0x5a5a5a; });
  both("no_remote_key", [](Line&, Ask& ask) { ask.remote_key = 0; });
  both("stale_remote_key", [](Line& line, Ask&) { line.far.drop(line.theirs); });
  both("remote_key_of_another_domain",
       [](Line& line, Ask& ask) { ask.remote_key = line.near.enroll(line.target).remote_key; });
  both("beyond_the_remote_end", [](Line&, Ask& ask) { ask.remote += 4097; });
  both("before_the_remote_begin", [](Line&, Ask& ask) { ask.remote -= 1; });
  both("far_from_the_region", [](Line&, Ask& ask) { ask.remote = 1; });
  both("around_the_end", [](Line&, Ask& ask) { ask.remote = ~0ull; });
  both("unknown_local_key", [](Line&, Ask& ask) { ask.pieces[0].lkey ^= 0x5a5a5a; });
  both("stale_local_key", [](Line& line, Ask&) { line.near.drop(line.ours); });
  both("local_key_of_another_domain",
       [](Line& line, Ask& ask) { ask.pieces[0].lkey = line.far.enroll(line.source).local_key; });
  both("beyond_the_local_end", [](Line&, Ask& ask) { ask.pieces[0].addr += 4097; });
  add("refused.write.to_a_region_for_reading", [](Run& run) {
    refused(run, false, [](Line& line, Ask& ask) {
      ask.remote_key = line.far.enroll(line.target, verbs::access_remote_read).remote_key;
    });
  });
  add("refused.write.to_a_local_region", [](Run& run) {
    refused(run, false, [](Line& line, Ask& ask) {
      ask.remote_key = line.far.enroll(line.target, verbs::access_local_write).local_key;
    });
  });
  add("refused.read.from_a_region_for_writing", [](Run& run) {
    refused(run, true, [](Line& line, Ask& ask) {
      ask.remote_key =
          line.far.enroll(line.target, verbs::access_local_write | verbs::access_remote_write)
              .remote_key;
    });
  });
  add("refused.read.into_a_region_for_reading", [](Run& run) {
    refused(run, true, [](Line& line, Ask& ask) {
      ask.pieces[0].lkey = line.near.enroll(line.source, verbs::access_remote_read).local_key;
    });
  });
  add("write.from_a_region_without_access", [](Run& run) {
    Line line(run);
    Ask ask = line.write(1);
    ask.pieces[0].lkey = line.near.enroll(line.source, 0).local_key;
    line.ask(ask);
  });
  add("refused.write.not_opened_for", [](Run& run) { not_opened_for(run, false); });
  add("refused.read.not_opened_for", [](Run& run) { not_opened_for(run, true); });
  add("refused.at_the_far_end", refuser);
  add("refused.behind_an_error", behind_an_error);
  add("refused.flushed", flushed);
  add("receive.too_small", [](Run& run) {
    receive_spoiled(
        run, [](Line&, Ask&) {}, 32);
  });
  add("receive.unknown_key", [](Run& run) {
    receive_spoiled(
        run, [](Line&, Ask& ask) { ask.pieces[0].lkey ^= 0x5a5a5a; }, 64);
  });
  add("receive.beyond_the_end", [](Run& run) {
    receive_spoiled(
        run, [](Line&, Ask& ask) { ask.pieces[0].addr += 8160; }, 64);
  });
  add("receive.into_a_region_for_reading", [](Run& run) {
    receive_spoiled(
        run,
        [](Line& line, Ask& ask) {
          ask.pieces[0].lkey = line.far.enroll(line.target, verbs::access_remote_read).local_key;
        },
        64);
  });
  add("receive.region_gone", dropped_below_a_receive);
  add("send.region_gone", dropped_below_a_send);
  add("send.nobody_receives", [](Run& run) { nobody_receives(run, 1); });
  add("send.nobody_receives.no_retry", [](Run& run) { nobody_receives(run, 0); });
  add("silence.nobody_there", nobody_there);
  add("silence.far_end_gone", far_end_goes);
  add("silence.far_end_in_error", far_end_in_error);
  add("full.sends", queue_full);
  add("full.receives", receive_queue_full);
  add("at_once.too_many_pieces", [](Run& run) { refused_at_once(run, too_many_pieces); });
  add("at_once.unknown_opcode",
      [](Run& run) { refused_at_once(run, [](Line&, Ask& ask) { ask.opcode = 77; }); });
  add("at_once.too_much_inline", [](Run& run) {
    refused_at_once(run, [](Line& line, Ask& ask) {
      ask.flags |= verbs::send_inline;
      ask.pieces[0].length = line.near.capacity.max_inline_data + 1;
    });
  });
  add("at_once.receive.too_many_pieces", receive_of_too_many_pieces);
}

}  // namespace nobounce::conformance
