// Requests that are served: reads, writes, sends, of nothing, of odd places, of many pieces, in
// order.
#include "conformance/verbs_rig.hpp"

namespace nobounce::conformance {

namespace {

void odd_places(Run& run, bool reading) {
  Line line(run);
  Ask ask = reading ? line.read(1, 777) : line.write(1, 777);
  ask.pieces[0].addr += 13;
  ask.remote += 4000;
  line.ask(ask);
}

void nothing(Run& run, int opcode, bool with_piece) {
  Line line(run);
  Ask ask = line.write(1, 0);
  ask.opcode = opcode;
  if (!with_piece) ask.pieces.clear();
  line.ask(ask);
}

/// Nothing is moved, so that nobody asks whose memory it would have been.
void nothing_by_a_wrong_key(Run& run, int opcode) {
  Line line(run);
  Ask ask = line.write(1, 0);
  ask.opcode = opcode;
  ask.pieces.clear();
  ask.remote_key ^= 0x5a5a5a;
  line.ask(ask);
}

void large(Run& run, bool reading) {
  Line line(run, {}, {}, 1u << 20);
  line.ask(reading ? line.read(1, 1u << 20) : line.write(1, 1u << 20));
}

void pieces(Run& run, bool reading) {
  Line line(run);
  Ask ask = reading ? line.read(1) : line.write(1);
  ask.pieces = {line.here(4000, 200), line.here(1, 1), line.here(77, 0), line.here(2048, 1000)};
  line.ask(ask);
}

void received(Run& run, bool with_imm) {
  Line line(run);
  (void)post_receive(line.far, 70, {line.there(100, 64)});
  Ask ask = line.send(1);
  if (with_imm) ask.opcode = verbs::wr_send_with_imm;
  ask.imm = 0x01020304;
  line.ask(ask);
  await(line.far, "received", 1);
}

void received_in_pieces(Run& run) {
  Line line(run);
  (void)post_receive(line.far, 70, {line.there(5, 10), line.there(3000, 1), line.there(64, 100)});
  line.ask(line.send(1, 90));
  await(line.far, "received", 1);
}

void received_less(Run& run) {
  Line line(run);
  (void)post_receive(line.far, 70, {line.there(0, 4096)});
  line.ask(line.send(1, 10));
  await(line.far, "received", 1);
}

void received_nothing(Run& run) {
  Line line(run);
  (void)post_receive(line.far, 70, {});
  Ask ask = line.send(1, 0);
  ask.pieces.clear();
  line.ask(ask);
  await(line.far, "received", 1);
}

void written_with_imm(Run& run) {
  Line line(run);
  (void)post_receive(line.far, 70, {});
  Ask ask = line.write(1);
  ask.opcode = verbs::wr_rdma_write_with_imm;
  ask.imm = 0x0a0b0c0d;
  line.ask(ask);
  await(line.far, "received", 1);
}

void receives_in_order(Run& run) {
  Line line(run);
  for (std::uint64_t id = 70; id < 74; ++id) {
    (void)post_receive(line.far, id, {line.there((id - 70) * 64, 64)});
  }
  (void)post(line.near, {line.send(1), line.send(2, 10), line.send(3, 1), line.send(4)});
  await(line.near, "sent", 4);
  await(line.far, "received", 4);
  run.bytes("there", line.target.bytes());
}

void in_order(Run& run) {
  Line line(run);
  std::vector<Ask> chain;
  for (std::uint64_t id = 1; id <= 12; ++id) {
    chain.push_back(id % 3 == 0 ? line.read(id, 512) : line.write(id, 512));
  }
  (void)post(line.near, chain);
  await(line.near, "asked", 12);
}

void more_reads_than_at_once(Run& run) {
  Line line(run, {.reads = 1});
  std::vector<Ask> chain;
  for (std::uint64_t id = 1; id <= 8; ++id) chain.push_back(line.read(id, 100));
  (void)post(line.near, chain);
  await(line.near, "asked", 8);
}

void unsignaled(Run& run) {
  Line line(run);
  std::vector<Ask> chain{line.write(1), line.write(2), line.write(3)};
  chain[0].flags = 0;
  chain[1].flags = 0;
  (void)post(line.near, chain);
  await(line.near, "asked", 1);
}

void all_signaled(Run& run) {
  Line line(run, {.all_signaled = true});
  std::vector<Ask> chain{line.write(1), line.read(2)};
  chain[0].flags = 0;
  chain[1].flags = 0;
  (void)post(line.near, chain);
  await(line.near, "asked", 2);
}

void inlined(Run& run, int opcode) {
  Line line(run);
  (void)post_receive(line.far, 70, {line.there(0, 64)});
  Ask ask = line.send(1, 40);
  ask.opcode = opcode;
  ask.flags |= verbs::send_inline;
  ask.pieces[0].lkey = 0;  // nobody looks at it
  line.ask(ask);
}

void fenced(Run& run) {
  Line line(run);
  std::vector<Ask> chain{line.read(1, 256), line.write(2, 256)};
  chain[1].flags |= verbs::send_fence;
  (void)post(line.near, chain);
  await(line.near, "asked", 2);
  run.bytes("here", line.source.bytes());
  run.bytes("there", line.target.bytes());
}

/// As much as fits, one after the other, so that queues go round.
void round(Run& run) {
  Line line(run, {.sends = 4});
  bool all = true;
  for (std::uint64_t id = 1; id <= 100; ++id) {
    verbs::ibv_sge piece = line.here(id % 32, 64);
    verbs::ibv_send_wr request{};
    request.wr_id = id;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = verbs::wr_rdma_write;
    request.send_flags = verbs::send_signaled;
    request.wr.rdma.remote_addr = line.theirs.address + id;
    request.wr.rdma.rkey = line.theirs.remote_key;
    verbs::ibv_send_wr* refused = nullptr;
    all = line.adapter.quiet.post_send(line.near.pair, &request, &refused) == 0 && all;
    verbs::ibv_wc one{};
    int count = 0;
    const auto came = [&] {
      return line.adapter.quiet.poll_cq(&count, line.near.queue, 1, &one) != 0 || count > 0;
    };
    (void)run.host.workers().wait(came, run.host.clock().now_ns() + 10'000'000'000);
    all = all && count == 1 && one.wr_id == id && one.status == verbs::wc_success;
  }
  run.yes("100 rounds", all);
  run.bytes("there", line.target.bytes());
}

/// A receive that is posted late is waited for.
void waits_for_a_receive(Run& run) {
  Line line(run, {.not_ready_retries = 7});
  (void)post(line.near, {line.send(1)});
  (void)run.host.workers().wait([] { return false; }, run.host.clock().now_ns() + 5'000'000);
  await(line.near, "sent", 0);
  (void)post_receive(line.far, 70, {line.there(0, 64)});
  await(line.near, "sent", 1);
  await(line.far, "received", 1);
}

void to_itself(Run& run) {
  Adapter adapter(run);
  QueueEnd end(adapter);
  join_to(end, end, end.number);
  const Pages pages(8192);
  pages.plant(3);
  const Registered region = end.enroll(pages);
  Ask ask;
  ask.pieces = {{region.address, 100, region.local_key}};
  ask.remote = region.address + 4096;
  ask.remote_key = region.remote_key;
  (void)post(end, {ask});
  await(end, "asked", 1);
  run.bytes("all", pages.bytes());
}

}  // namespace

void add_verbs_requests(Catalogue& all) {
  const auto add = [&](const char* name, std::function<void(Run&)> body) {
    all.add(std::string("verbs.") + name, std::move(body), adapter_alone);
  };
  add("write", [](Run& run) {
    Line line(run);
    line.ask(line.write(1));
  });
  add("read", [](Run& run) {
    Line line(run);
    line.ask(line.read(1));
  });
  add("write.odd_places", [](Run& run) { odd_places(run, false); });
  add("read.odd_places", [](Run& run) { odd_places(run, true); });
  add("write.large", [](Run& run) { large(run, false); });
  add("read.large", [](Run& run) { large(run, true); });
  add("write.pieces", [](Run& run) { pieces(run, false); });
  add("read.pieces", [](Run& run) { pieces(run, true); });
  add("write.nothing", [](Run& run) { nothing(run, verbs::wr_rdma_write, false); });
  add("write.empty_piece", [](Run& run) { nothing(run, verbs::wr_rdma_write, true); });
  add("read.nothing", [](Run& run) { nothing(run, verbs::wr_rdma_read, false); });
  add("read.empty_piece", [](Run& run) { nothing(run, verbs::wr_rdma_read, true); });
  add("write.nothing.wrong_key",
      [](Run& run) { nothing_by_a_wrong_key(run, verbs::wr_rdma_write); });
  add("read.nothing.wrong_key", [](Run& run) { nothing_by_a_wrong_key(run, verbs::wr_rdma_read); });
  add("write.inline", [](Run& run) { inlined(run, verbs::wr_rdma_write); });
  add("write.with_imm", written_with_imm);
  add("send", [](Run& run) { received(run, false); });
  add("send.with_imm", [](Run& run) { received(run, true); });
  add("send.inline", [](Run& run) { inlined(run, verbs::wr_send); });
  add("send.into_pieces", received_in_pieces);
  add("send.less_than_room", received_less);
  add("send.nothing", received_nothing);
  add("send.in_order", receives_in_order);
  add("send.waits", waits_for_a_receive);
  add("order", in_order);
  add("order.more_reads_than_at_once", more_reads_than_at_once);
  add("order.fence", fenced);
  add("order.round", round);
  add("signals.none", unsignaled);
  add("signals.all", all_signaled);
  add("pair.to_itself", to_itself);
}

}  // namespace nobounce::conformance
