// Adapters of a software machine with queue pairs joined by hand, and the bytes behind them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_rig.hpp"
#include "machine_rig.hpp"
#include "system/verbs.hpp"

namespace nobounce::fabric {

namespace verbs = system::verbs;

/// Two GPUs and two adapters below one switch.
inline Machine two_adapters() {
  Machine machine;
  machine.name = "adapters";
  machine.numa_nodes = {NumaNode{0, 64ull << 30}};
  machine.host_bridges = {HostBridge{}};
  machine.switches = {Switch{{Parent::Kind::host_bridge, 0}, AcsMode::off, {}}};
  for (int i = 0; i < 2; ++i) {
    Gpu gpu;
    gpu.parent = {Parent::Kind::pci_switch, 0};
    gpu.memory_bytes = 32ull << 30;
    gpu.bar1_bytes = 32ull << 30;
    machine.gpus.push_back(gpu);
    Nic nic;
    nic.parent = {Parent::Kind::pci_switch, 0};
    nic.name = "mlx5_" + std::to_string(i);
    machine.nics.push_back(nic);
  }
  machine.mounts = {Mount{}};
  machine.mounts[0].type = "overlay";
  return machine;
}

/// One end: a domain, a queue and a pair of one adapter.
struct VerbsEnd {
  verbs::ibv_context* context = nullptr;
  verbs::ibv_pd* domain = nullptr;
  verbs::ibv_cq* queue = nullptr;
  verbs::ibv_qp* pair = nullptr;
  std::uint32_t number = 0;
  verbs::ibv_gid gid{};
  std::uint16_t lid = 0;
};

struct VerbsRegion {
  verbs::ibv_mr* handle = nullptr;
  std::uint64_t address = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
};

struct VerbsOptions {
  int access = verbs::access_local_write | verbs::access_remote_write | verbs::access_remote_read;
  std::uint8_t timeout = 8;  ///< 1 ms
  std::uint8_t retries = 3;
  std::uint8_t not_ready_retries = 2;
  std::uint32_t sends = 64;
  int completions = 256;
};

constexpr int all_access =
    verbs::access_local_write | verbs::access_remote_write | verbs::access_remote_read;

struct VerbsRig : CudaRig {
  explicit VerbsRig(const Machine& machine = two_adapters(),
                    const SoftOptions& options = {.deterministic = true})
      : CudaRig(machine, options) {
    start();
    table = *host->verbs();
  }

  VerbsEnd end(std::size_t nic, const VerbsOptions& options = {}) {
    VerbsEnd made;
    verbs::ibv_device** devices = nullptr;
    int count = 0;
    EXPECT_EQ(table->get_device_list(&devices, &count), 0);
    EXPECT_EQ(table->open_device(&made.context, devices[nic]), 0);
    EXPECT_EQ(table->free_device_list(devices), 0);
    EXPECT_EQ(table->alloc_pd(&made.domain, made.context), 0);
    EXPECT_EQ(table->create_cq(&made.queue, made.context, options.completions), 0);
    verbs::ibv_qp_init_attr initial{};
    initial.send_cq = made.queue;
    initial.recv_cq = made.queue;
    initial.cap = {options.sends, 64, 4, 4, 128};
    initial.qp_type = verbs::qp_type_rc;
    EXPECT_EQ(table->create_qp(&made.pair, made.domain, &initial), 0);
    EXPECT_EQ(table->get_qp_number(&made.number, made.pair), 0);
    verbs::ibv_gid_entry entry{};
    EXPECT_EQ(table->query_gid(made.context, 1, 0, &entry), 0);
    made.gid = entry.gid;
    verbs::ibv_port_attr port{};
    EXPECT_EQ(table->query_port(made.context, 1, &port), 0);
    made.lid = port.lid;
    return made;
  }

  int to_init(const VerbsEnd& end, int access = all_access) {
    verbs::ibv_qp_attr attributes{};
    attributes.qp_state = verbs::qp_init;
    attributes.port_num = 1;
    attributes.qp_access_flags = static_cast<unsigned>(access);
    return table->modify_qp(end.pair, &attributes,
                            verbs::qp_mask_state | verbs::qp_mask_pkey_index | verbs::qp_mask_port |
                                verbs::qp_mask_access_flags);
  }
  int to_rtr(const VerbsEnd& end, const VerbsEnd& far) {
    verbs::ibv_qp_attr attributes{};
    attributes.qp_state = verbs::qp_rtr;
    attributes.path_mtu = verbs::mtu_4096;
    attributes.dest_qp_num = far.number;
    attributes.max_dest_rd_atomic = 4;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.dlid = far.lid;
    attributes.ah_attr.grh.dgid = far.gid;
    return table->modify_qp(end.pair, &attributes,
                            verbs::qp_mask_state | verbs::qp_mask_av | verbs::qp_mask_path_mtu |
                                verbs::qp_mask_dest_qpn | verbs::qp_mask_rq_psn |
                                verbs::qp_mask_max_dest_rd_atomic | verbs::qp_mask_min_rnr_timer);
  }
  int to_rts(const VerbsEnd& end, const VerbsOptions& options = {}) {
    verbs::ibv_qp_attr attributes{};
    attributes.qp_state = verbs::qp_rts;
    attributes.timeout = options.timeout;
    attributes.retry_cnt = options.retries;
    attributes.rnr_retry = options.not_ready_retries;
    attributes.max_rd_atomic = 4;
    return table->modify_qp(end.pair, &attributes,
                            verbs::qp_mask_state | verbs::qp_mask_sq_psn | verbs::qp_mask_timeout |
                                verbs::qp_mask_retry_count | verbs::qp_mask_rnr_retry |
                                verbs::qp_mask_max_rd_atomic);
  }
  void join(const VerbsEnd& one, const VerbsEnd& other, const VerbsOptions& options = {}) {
    for (const auto& [end, far] : {std::pair{&one, &other}, std::pair{&other, &one}}) {
      EXPECT_EQ(to_init(*end, options.access), 0);
      EXPECT_EQ(to_rtr(*end, *far), 0);
      EXPECT_EQ(to_rts(*end, options), 0);
    }
  }

  /// GPU memory as a dma-buf, registered whole.
  VerbsRegion export_gpu(const VerbsEnd& end, cuda::CUdeviceptr pointer, std::size_t bytes,
                         int access = all_access) {
    VerbsRegion region;
    int descriptor = -1;
    EXPECT_EQ(api->mem_get_handle_for_address_range(&descriptor, pointer, bytes,
                                                    cuda::range_handle_dma_buf, 0),
              cuda::success);
    EXPECT_EQ(
        table->reg_dmabuf_mr(&region.handle, end.domain, 0, bytes, pointer, descriptor, access), 0);
    EXPECT_EQ(table->close_dmabuf(descriptor), 0);
    region.address = pointer;
    if (region.handle != nullptr) {
      EXPECT_EQ(table->get_keys(&region.local_key, &region.remote_key, region.handle), 0);
    }
    return region;
  }
  VerbsRegion enroll(const VerbsEnd& end, void* memory, std::size_t bytes,
                     int access = all_access) {
    VerbsRegion region;
    EXPECT_EQ(table->reg_mr(&region.handle, end.domain, memory, bytes, access), 0);
    region.address = reinterpret_cast<std::uintptr_t>(memory);
    if (region.handle != nullptr) {
      EXPECT_EQ(table->get_keys(&region.local_key, &region.remote_key, region.handle), 0);
    }
    return region;
  }

  struct Ask {
    int opcode = verbs::wr_rdma_write;
    std::uint64_t id = 1;
    std::uint64_t local = 0;
    std::uint32_t length = 0;
    std::uint32_t local_key = 0;
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    unsigned flags = verbs::send_signaled;
    std::uint32_t imm = 0;
  };
  int post(const VerbsEnd& end, const Ask& ask) {
    verbs::ibv_sge piece{ask.local, ask.length, ask.local_key};
    verbs::ibv_send_wr request{};
    request.wr_id = ask.id;
    request.sg_list = &piece;
    request.num_sge = ask.length == 0 ? 0 : 1;
    request.opcode = ask.opcode;
    request.send_flags = ask.flags;
    request.imm_data = ask.imm;
    request.wr.rdma.remote_addr = ask.remote;
    request.wr.rdma.rkey = ask.remote_key;
    verbs::ibv_send_wr* refused = nullptr;
    return table->post_send(end.pair, &request, &refused);
  }
  int receive(const VerbsEnd& end, std::uint64_t id, std::uint64_t address, std::uint32_t length,
              std::uint32_t key) {
    verbs::ibv_sge piece{address, length, key};
    verbs::ibv_recv_wr request{};
    request.wr_id = id;
    request.sg_list = &piece;
    request.num_sge = 1;
    verbs::ibv_recv_wr* refused = nullptr;
    return table->post_recv(end.pair, &request, &refused);
  }
  /// The completions that come within (virtual) ten seconds.
  std::vector<verbs::ibv_wc> await(const VerbsEnd& end, std::size_t wanted) {
    std::vector<verbs::ibv_wc> all;
    const auto ready = [&] {
      verbs::ibv_wc one{};
      int count = 0;
      while (all.size() < wanted && table->poll_cq(&count, end.queue, 1, &one) == 0 && count == 1) {
        all.push_back(one);
      }
      return all.size() >= wanted;
    };
    (void)host->workers().wait(ready, host->clock().now_ns() + 10'000'000'000);
    return all;
  }
  void drop(const VerbsEnd& end) {
    EXPECT_EQ(table->destroy_qp(end.pair), 0);
    EXPECT_EQ(table->destroy_cq(end.queue), 0);
    EXPECT_EQ(table->dealloc_pd(end.domain), 0);
    EXPECT_EQ(table->close_device(end.context), 0);
  }

  system::Verbs* table = nullptr;
};

}  // namespace nobounce::fabric
