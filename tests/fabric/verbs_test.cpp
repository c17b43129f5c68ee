// Adapters of a software machine: states, keys, bounds, statuses, order, retries, and what the bus
// carried.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "verbs_rig.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::size_t length = 1u << 20;

/// GPU 0 behind one end, GPU 1 behind the other, both registered whole.
struct Verbs : VerbsRig, testing::Test {
  Verbs() : Verbs(SoftOptions{.deterministic = true}) {}
  explicit Verbs(const SoftOptions& options) : VerbsRig(two_adapters(), options) {
    near = end(0);
    far = end(1);
    source = allocate(length);
    EXPECT_EQ(api->ctx_push_current(contexts[1]), cuda::success);
    target = allocate(length);
  }
  void connect(const VerbsOptions& options = {}) {
    join(near, far, options);
    ours = export_gpu(near, source, length);
    theirs = export_gpu(far, target, length);
  }
  Ask write(std::uint64_t id = 1, std::uint32_t bytes = length) const {
    return {verbs::wr_rdma_write,
            id,
            ours.address,
            bytes,
            ours.local_key,
            theirs.address,
            theirs.remote_key,
            verbs::send_signaled,
            0};
  }
  /// The one status that a request ends with.
  int status_of(const Ask& ask) {
    EXPECT_EQ(post(near, ask), 0);
    const std::vector<verbs::ibv_wc> done = await(near, 1);
    if (done.size() != 1) return -1;
    EXPECT_EQ(done[0].wr_id, ask.id);
    return done[0].status;
  }

  VerbsEnd near;
  VerbsEnd far;
  cuda::CUdeviceptr source = 0;
  cuda::CUdeviceptr target = 0;
  VerbsRegion ours;
  VerbsRegion theirs;
};

TEST_F(Verbs, ListNameAndPortsAreThoseOfTheMachine) {
  verbs::ibv_device** devices = nullptr;
  int count = 0;
  ASSERT_EQ(table->get_device_list(&devices, &count), 0);
  ASSERT_EQ(count, 2);
  const char* name = nullptr;
  ASSERT_EQ(table->get_device_name(&name, devices[1]), 0);
  EXPECT_STREQ(name, "mlx5_1");
  int node = 0;
  int transport = -1;
  EXPECT_EQ(table->get_device_types(&node, &transport, devices[0]), 0);
  EXPECT_EQ(node, verbs::node_ca);
  EXPECT_EQ(transport, verbs::transport_ib);
  EXPECT_EQ(table->free_device_list(devices), 0);
  verbs::ibv_port_attr port{};
  EXPECT_EQ(table->query_port(near.context, 1, &port), 0);
  EXPECT_EQ(port.state, verbs::port_active);
  EXPECT_EQ(table->query_port(near.context, 2, &port), EINVAL);
  EXPECT_NE(near.lid, far.lid);
}

TEST_F(Verbs, AWriteFromGpuToGpuIsDirectAndArrives) {
  connect();
  const std::vector<std::byte> bytes = pattern(length);
  plant(source, bytes);
  host->bus().ledger().clear_requests();
  ASSERT_EQ(status_of(write()), verbs::wc_success);
  EXPECT_EQ(inspect(target, length), bytes);
  EXPECT_EQ(host->ledger().dram_bytes(), 0u);
  EXPECT_EQ(host->ledger().cpu_touched_bytes(), 0u);
  const Bus& bus = host->bus();
  const Arrivals arrived =
      host->ledger().arrivals(bus.extent_of(End::of(DevicePointer{target})), length);
  EXPECT_EQ(arrived.bytes[Carriage::direct], length);
  EXPECT_FALSE(arrived.redirected);
}

TEST_F(Verbs, AReadBringsTheFarBytesHere) {
  connect();
  const std::vector<std::byte> bytes = pattern(length, 7);
  plant(target, bytes);
  Ask ask = write();
  ask.opcode = verbs::wr_rdma_read;
  ASSERT_EQ(status_of(ask), verbs::wc_success);
  EXPECT_EQ(inspect(source, length), bytes);
  EXPECT_EQ(host->ledger().dram_bytes(), 0u);
}

TEST_F(Verbs, NothingAndOddPlacesAreMovedExactly) {
  connect();
  EXPECT_EQ(status_of(write(1, 0)), verbs::wc_success);
  const std::vector<std::byte> before(length, std::byte{0x11});
  plant(target, before);
  const std::vector<std::byte> bytes = pattern(length, 3);
  plant(source, bytes);
  Ask ask = write(2, 777);
  ask.local += 13;
  ask.remote += 4095;
  ASSERT_EQ(status_of(ask), verbs::wc_success);
  std::vector<std::byte> expected = before;
  std::copy_n(bytes.begin() + 13, 777, expected.begin() + 4095);
  EXPECT_EQ(inspect(target, length), expected);
}

TEST_F(Verbs, BytesFromHostMemoryAreSeenThroughTheWire) {
  connect();
  std::byte* pinned = allocate_pinned(4096);
  const VerbsRegion host_region = enroll(near, pinned, 4096);
  Ask ask = write(1, 4096);
  ask.local = host_region.address;
  ask.local_key = host_region.local_key;
  host->bus().ledger().clear_requests();
  ASSERT_EQ(status_of(ask), verbs::wc_success);
  const Extent extent = host->bus().extent_of(End::of(DevicePointer{target}));
  EXPECT_EQ(host->ledger().arrivals(extent, 4096).bytes[Carriage::staged], 4096u);
  const Extent own = host->bus().extent_of(End::at(host->bus().address_of(pinned)));
  EXPECT_EQ(host->ledger().arrivals(extent, 4096, own, 4096).bytes[Carriage::direct], 4096u);
}

TEST_F(Verbs, SendsLandInWhatWasPostedAndCarryANumber) {
  connect();
  ASSERT_EQ(receive(far, 70, theirs.address, 64, theirs.local_key), 0);
  ASSERT_EQ(receive(far, 71, theirs.address + 64, 64, theirs.local_key), 0);
  plant(source, pattern(64, 5));
  Ask ask = write(1, 64);
  ask.opcode = verbs::wr_send_with_imm;
  ask.imm = 0xabcd;
  ASSERT_EQ(status_of(ask), verbs::wc_success);
  std::vector<verbs::ibv_wc> got = await(far, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wr_id, 70u);
  EXPECT_EQ(got[0].opcode, verbs::wc_op_recv);
  EXPECT_EQ(got[0].byte_len, 64u);
  EXPECT_EQ(got[0].imm_data, 0xabcdu);
  EXPECT_EQ(inspect(target, 64), pattern(64, 5));
  ask = write(2, 128);
  ask.opcode = verbs::wr_rdma_write_with_imm;
  ask.remote += 4096;
  ASSERT_EQ(status_of(ask), verbs::wc_success);
  got = await(far, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wr_id, 71u);
  EXPECT_EQ(got[0].opcode, verbs::wc_op_recv_rdma_with_imm);
}

TEST_F(Verbs, ASendThatNobodyAwaitsIsTriedAgainAndThenGivenUp) {
  connect({.not_ready_retries = 2});
  Ask ask = write(1, 64);
  ask.opcode = verbs::wr_send;
  EXPECT_EQ(status_of(ask), verbs::wc_rnr_retry_exceeded);
}

TEST_F(Verbs, ASendMayWaitForItsReceive) {
  connect({.not_ready_retries = 7});
  Ask ask = write(1, 64);
  ask.opcode = verbs::wr_send;
  ASSERT_EQ(post(near, ask), 0);
  (void)host->workers().wait([] { return false; }, host->clock().now_ns() + 1'000'000);
  ASSERT_EQ(receive(far, 9, theirs.address, 64, theirs.local_key), 0);
  const std::vector<verbs::ibv_wc> done = await(near, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, verbs::wc_success);
}

TEST_F(Verbs, CompletionsComeInTheOrderOfTheRequests) {
  connect();
  for (std::uint64_t id = 1; id <= 20; ++id) {
    Ask ask = write(id, 4096);
    if (id % 3 == 0) ask.opcode = verbs::wr_rdma_read;
    ASSERT_EQ(post(near, ask), 0);
  }
  const std::vector<verbs::ibv_wc> done = await(near, 20);
  ASSERT_EQ(done.size(), 20u);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i + 1);
    EXPECT_EQ(done[i].status, verbs::wc_success);
  }
}

TEST_F(Verbs, AFencedRequestWaitsForTheReadsBeforeIt) {
  connect();
  plant(source, pattern(length, 1));
  const std::vector<std::byte> theirs_before = pattern(length, 2);
  plant(target, theirs_before);
  Ask fetch = write(1);
  fetch.opcode = verbs::wr_rdma_read;
  Ask back = write(2);
  back.flags |= verbs::send_fence;
  ASSERT_EQ(post(near, fetch), 0);
  ASSERT_EQ(post(near, back), 0);
  ASSERT_EQ(await(near, 2).size(), 2u);
  EXPECT_EQ(inspect(target, length), theirs_before) << "what was read is what was written back";
}

TEST_F(Verbs, AReceiveThatCannotBeFilledSaysWhyAndTheOthersAreFlushed) {
  for (const bool small : {true, false}) {
    near = end(0);
    far = end(1);
    connect();
    const std::uint32_t key = small ? theirs.local_key : theirs.local_key ^ 1;
    ASSERT_EQ(receive(far, 70, theirs.address, small ? 32 : 64, key), 0);
    ASSERT_EQ(receive(far, 71, theirs.address, 64, theirs.local_key), 0);
    Ask ask = write(1, 64);
    ask.opcode = verbs::wr_send;
    EXPECT_EQ(status_of(ask),
              small ? verbs::wc_remote_invalid_request : verbs::wc_remote_operation_error);
    const std::vector<verbs::ibv_wc> got = await(far, 2);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].wr_id, 70u);
    EXPECT_EQ(got[0].status,
              small ? verbs::wc_local_length_error : verbs::wc_local_protection_error);
    EXPECT_EQ(got[1].status, verbs::wc_flushed);
  }
}

TEST_F(Verbs, ChangesTakeWhatTheyTakeAndNothingElse) {
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_error;
  EXPECT_EQ(table->modify_qp(near.pair, &attributes, verbs::qp_mask_state), EINVAL) << "from reset";
  ASSERT_EQ(to_init(near), 0);
  attributes.qp_state = verbs::qp_init;
  EXPECT_EQ(table->modify_qp(near.pair, &attributes, verbs::qp_mask_state), 0) << "again";
  ASSERT_EQ(to_rtr(near, far), 0);
  ASSERT_EQ(to_rts(near), 0);
  attributes.qp_access_flags = verbs::access_remote_read;
  EXPECT_EQ(table->modify_qp(near.pair, &attributes, verbs::qp_mask_access_flags), 0)
      << "the present state is kept";
  attributes.path_mtu = verbs::mtu_256;
  EXPECT_EQ(table->modify_qp(near.pair, &attributes, verbs::qp_mask_path_mtu), EINVAL)
      << "the path is fixed by now";
}

struct Refusal {
  std::string name;
  int status = 0;
  void (*spoil)(Verbs&, VerbsRig::Ask&);
};

class VerbsRefuse : public Verbs, public testing::WithParamInterface<Refusal> {};

TEST_P(VerbsRefuse, WithTheStatusOfTheSpecificationAndChangeNothing) {
  connect();
  plant(source, pattern(length, 2));
  const std::vector<std::byte> before(length, std::byte{0x22});
  plant(target, before);
  Ask ask = write(42);
  GetParam().spoil(*this, ask);
  EXPECT_EQ(status_of(ask), GetParam().status);
  EXPECT_EQ(inspect(target, length), before);
  // The pair has failed: what is posted now is flushed.
  EXPECT_EQ(status_of(write(43)), verbs::wc_flushed);
  verbs::ibv_qp_attr attributes{};
  verbs::ibv_qp_init_attr initial{};
  EXPECT_EQ(table->query_qp(near.pair, &attributes, verbs::qp_mask_state, &initial), 0);
  EXPECT_EQ(attributes.qp_state, verbs::qp_error);
}

INSTANTIATE_TEST_SUITE_P(
    Each, VerbsRefuse,
    testing::Values(
        Refusal{"UnknownLocalKey", verbs::wc_local_protection_error,
                [](Verbs&, VerbsRig::Ask& ask) { ask.local_key ^= 1; }},
        Refusal{"BehindTheLocalEnd", verbs::wc_local_protection_error,
                [](Verbs&, VerbsRig::Ask& ask) { ask.local += 1; }},
        Refusal{"UnknownRemoteKey", verbs::wc_remote_access_error,
                [](Verbs&, VerbsRig::Ask& ask) { ask.remote_key ^= 1; }},
        Refusal{"BehindTheRemoteEnd", verbs::wc_remote_access_error,
                [](Verbs&, VerbsRig::Ask& ask) { ask.remote += 1; }},
        Refusal{"BeforeTheRemoteBegin", verbs::wc_remote_access_error,
                [](Verbs&, VerbsRig::Ask& ask) { ask.remote -= 1; }},
        Refusal{
            "ReadOnly", verbs::wc_remote_access_error,
            [](Verbs& rig, VerbsRig::Ask& ask) {
              ask.remote_key =
                  rig.export_gpu(rig.far, rig.target, length, verbs::access_remote_read).remote_key;
            }},
        Refusal{"RegionGone", verbs::wc_remote_access_error,
                [](Verbs& rig, VerbsRig::Ask&) {
                  EXPECT_EQ(rig.table->dereg_mr(rig.theirs.handle), 0);
                }},
        Refusal{"KeyOfAnotherDomain", verbs::wc_remote_access_error,
                [](Verbs& rig, VerbsRig::Ask& ask) {
                  const VerbsEnd other = rig.end(1);
                  ask.remote_key = rig.export_gpu(other, rig.target, length).remote_key;
                }},
        Refusal{
            "NotAReadersMemory", verbs::wc_local_protection_error,
            [](Verbs& rig, VerbsRig::Ask& ask) {
              ask.opcode = verbs::wr_rdma_read;
              ask.local_key =
                  rig.export_gpu(rig.near, rig.source, length, verbs::access_remote_read).local_key;
            }}),
    [](const auto& each) { return each.param.name; });

TEST_F(Verbs, APairRefusesWhatItWasNotOpenedFor) {
  connect({.access = verbs::access_local_write});
  EXPECT_EQ(status_of(write()), verbs::wc_remote_invalid_request);
}

TEST_F(Verbs, MemoryThatWasFreedIsNobodysAnyMore) {
  connect();
  ASSERT_EQ(api->mem_free(target), cuda::success);
  EXPECT_EQ(status_of(write()), verbs::wc_remote_access_error);
}

TEST_F(Verbs, SilenceEndsWithRetryExceededInTheTimeThatWasAsked) {
  join(near, far, {.timeout = 8, .retries = 3});
  ours = export_gpu(near, source, length);
  theirs = export_gpu(far, target, length);
  ASSERT_EQ(table->dereg_mr(theirs.handle), 0);
  drop(far);
  const std::uint64_t before_ns = host->clock().now_ns();
  EXPECT_EQ(status_of(write()), verbs::wc_retry_exceeded);
  const std::uint64_t took_ns = host->clock().now_ns() - before_ns;
  EXPECT_GE(took_ns, 4 * (4096ull << 8));
  EXPECT_LT(took_ns, 8 * (4096ull << 8));
}

TEST_F(Verbs, WrongTransitionsAreRefused) {
  EXPECT_EQ(to_rtr(near, far), EINVAL);
  EXPECT_EQ(to_rts(near), EINVAL);
  ASSERT_EQ(to_init(near), 0);
  EXPECT_EQ(to_rts(near), EINVAL);
  EXPECT_EQ(post(near, write()), EINVAL);
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_rtr;
  EXPECT_EQ(table->modify_qp(near.pair, &attributes, verbs::qp_mask_state), EINVAL);
  ASSERT_EQ(to_rtr(near, far), 0);
  EXPECT_EQ(post(near, write()), EINVAL) << "not ready to send";
  ASSERT_EQ(to_rts(near), 0);
}

TEST_F(Verbs, WhatIsUsedCannotBeDropped) {
  connect();
  EXPECT_EQ(table->dealloc_pd(near.domain), EBUSY);
  EXPECT_EQ(table->destroy_cq(near.queue), EBUSY);
  EXPECT_EQ(table->dereg_mr(ours.handle), 0);
  EXPECT_EQ(table->dereg_mr(theirs.handle), 0);
  drop(near);
  drop(far);
  EXPECT_EQ(host->bus().bar1_used_bytes(0), 0u);
  EXPECT_EQ(host->bus().bar1_used_bytes(1), 0u);
}

TEST_F(Verbs, ASendQueueHoldsWhatItWasMadeFor) {
  near = end(0, {.sends = 4});
  join(near, far);
  ours = export_gpu(near, source, length);
  theirs = export_gpu(far, target, length);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(post(near, write(1, 16)), 0);
  EXPECT_EQ(post(near, write(1, 16)), ENOMEM);
}

struct Lossy : Verbs {
  Lossy() : Verbs(SoftOptions{.deterministic = true, .seed = 5, .faults = {.packet_loss = 0.1}}) {}
};

TEST_F(Lossy, WiresBringEverythingAllTheSame) {
  connect({.timeout = 8, .retries = 7, .not_ready_retries = 7});
  const std::vector<std::byte> bytes = pattern(length, 9);
  plant(source, bytes);
  for (std::uint64_t id = 0; id < 16; ++id) {
    const auto part = static_cast<std::uint32_t>(length / 16);
    Ask ask = write(id, part);
    ask.local += id * part;
    ask.remote += id * part;
    ASSERT_EQ(post(near, ask), 0);
  }
  const std::vector<verbs::ibv_wc> done = await(near, 16);
  ASSERT_EQ(done.size(), 16u);
  for (const verbs::ibv_wc& each : done) EXPECT_EQ(each.status, verbs::wc_success);
  EXPECT_EQ(inspect(target, length), bytes);
  std::vector<std::byte> back = pattern(length, 10);
  plant(target, back);
  Ask ask = write(99);
  ask.opcode = verbs::wr_rdma_read;
  EXPECT_EQ(status_of(ask), verbs::wc_success);
  EXPECT_EQ(inspect(source, length), back);
}

// --- registering memory ---

struct Registering {
  std::string name;
  bool peermem = false;
  int code = 0;
  void (*spoil)(Machine&) = nullptr;
};

class GpuMemoryByPeermem : public testing::TestWithParam<Registering> {};

TEST_P(GpuMemoryByPeermem, IsRegisteredOrRefusedAsTheKernelDoes) {
  Machine machine = two_adapters();
  machine.modules.nvidia_peermem = GetParam().peermem;
  if (GetParam().spoil != nullptr) GetParam().spoil(machine);
  VerbsRig rig(machine);
  const VerbsEnd end = rig.end(0);
  const cuda::CUdeviceptr memory = rig.allocate(length);
  verbs::ibv_mr* region = nullptr;
  EXPECT_EQ(
      rig.table->reg_mr(&region, end.domain, reinterpret_cast<void*>(memory), length, all_access),
      GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Each, GpuMemoryByPeermem,
    testing::Values(Registering{"Loaded", true, 0, nullptr},
                    Registering{"NotLoaded", false, EFAULT, nullptr},
                    Registering{"ProductWithout", true, EFAULT,
                                [](Machine& machine) { machine.gpus[0].gpudirect_rdma = false; }},
                    Registering{"WindowTooSmall", true, ENOMEM,
                                [](Machine& machine) { machine.gpus[0].bar1_bytes = 64u << 10; }}),
    [](const auto& each) { return each.param.name; });

TEST_F(Verbs, DmaBufsAreRegisteredByTheKernelsRules) {
  int descriptor = -1;
  ASSERT_EQ(api->mem_get_handle_for_address_range(&descriptor, target, length,
                                                  cuda::range_handle_dma_buf, 0),
            cuda::success);
  verbs::ibv_mr* region = nullptr;
  EXPECT_EQ(table->reg_dmabuf_mr(&region, far.domain, 1, length - 1, target, descriptor, 0), EINVAL)
      << "offset and address must agree within a page";
  EXPECT_EQ(table->reg_dmabuf_mr(&region, far.domain, 4096, length, target, descriptor, 0), EINVAL)
      << "beyond its end";
  EXPECT_EQ(table->reg_dmabuf_mr(&region, far.domain, 1, 100, target + 1, descriptor,
                                 verbs::access_remote_write),
            EINVAL)
      << "writable from afar and not here";
  EXPECT_EQ(table->reg_dmabuf_mr(&region, far.domain, 1, 100, target + 1, descriptor, 0), 0);
  EXPECT_EQ(table->close_dmabuf(descriptor), 0);
  EXPECT_EQ(table->reg_dmabuf_mr(&region, far.domain, 0, length, target, descriptor, 0), EBADF);
}

TEST_F(Verbs, OnlyWholePagesOfAllocationsAreExported) {
  int descriptor = -1;
  const auto export_range = [&](cuda::CUdeviceptr at, std::size_t bytes, unsigned long long flags) {
    return api->mem_get_handle_for_address_range(&descriptor, at, bytes, cuda::range_handle_dma_buf,
                                                 flags);
  };
  EXPECT_EQ(export_range(target + 512, 4096, 0), cuda::error_invalid_value);
  EXPECT_EQ(export_range(target, 100, 0), cuda::error_invalid_value);
  EXPECT_EQ(export_range(target, length + 4096, 0), cuda::error_invalid_value);
  EXPECT_EQ(export_range(target, length, cuda::range_flag_pcie), cuda::error_not_supported);
  EXPECT_EQ(export_range(0x1000, 4096, 0), cuda::error_invalid_value);
}

TEST(VerbsOfAMachine, WithoutDmaBufRefuseToExport) {
  Machine machine = two_adapters();
  machine.kernel.dmabuf = false;
  VerbsRig rig(machine);
  const cuda::CUdeviceptr memory = rig.allocate(length);
  int descriptor = -1;
  EXPECT_EQ(rig.api->mem_get_handle_for_address_range(&descriptor, memory, length,
                                                      cuda::range_handle_dma_buf, 0),
            cuda::error_not_supported);
}

TEST(VerbsOfAMachine, WithALimitOfLockedMemorySayThatThereIsNone) {
  SoftOptions options{.deterministic = true};
  options.faults.memlock_bytes = 64u << 10;
  VerbsRig rig(two_adapters(), options);
  const VerbsEnd end = rig.end(0);
  std::byte* memory = rig.allocate_pinned(128u << 10);
  verbs::ibv_mr* region = nullptr;
  EXPECT_EQ(rig.table->reg_mr(&region, end.domain, memory, 128u << 10, all_access), ENOMEM);
  EXPECT_EQ(rig.table->reg_mr(&region, end.domain, memory, 64u << 10, all_access), 0);
}

TEST(VerbsOfAMachine, ThatRedirectsAndRefusesLoseWritesInSilence) {
  Machine machine = two_adapters();
  machine.switches[0].acs = AcsMode::redirect;
  machine.host_bridges[0].peer_forwarding = PeerForwarding::refused;
  VerbsRig rig(machine);
  const VerbsEnd near = rig.end(0);
  const VerbsEnd far = rig.end(1);
  rig.join(near, far);
  std::byte* memory = rig.allocate_pinned(4096);
  const VerbsRegion ours = rig.enroll(near, memory, 4096);
  const cuda::CUdeviceptr target = rig.allocate(length);
  const VerbsRegion theirs = rig.export_gpu(far, target, length);
  rig.plant(target, pattern(4096, 1));
  ASSERT_EQ(rig.post(near, {.local = ours.address,
                            .length = 4096,
                            .local_key = ours.local_key,
                            .remote = theirs.address,
                            .remote_key = theirs.remote_key}),
            0);
  std::vector<verbs::ibv_wc> done = rig.await(near, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, verbs::wc_success) << "a posted write that is lost tells nobody";
  EXPECT_EQ(rig.inspect(target, 4096), pattern(4096, 1));
  EXPECT_EQ(rig.host->ledger().lost_bytes(), 4096u);
  ASSERT_EQ(rig.post(near, {.opcode = verbs::wr_rdma_read,
                            .local = ours.address,
                            .length = 4096,
                            .local_key = ours.local_key,
                            .remote = theirs.address,
                            .remote_key = theirs.remote_key}),
            0);
  done = rig.await(near, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, verbs::wc_remote_operation_error) << "a read that is lost is noticed";
}

}  // namespace
}  // namespace nobounce::fabric
