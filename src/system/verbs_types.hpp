// Our own declarations of rdma-core's plain data (infiniband/verbs.h): what is handed over is laid
// out as there, so that tables pass it on as it is. Compared with the real header in a test.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nobounce::system::verbs {

// Handles: nobody but a table looks inside.
struct ibv_device;
struct ibv_context;
struct ibv_pd;
struct ibv_mr;
struct ibv_cq;
struct ibv_qp;

inline constexpr int success = 0;  ///< all else is an errno

/// Adapters of these two kinds have RC queue pairs that can be joined by hand.
inline constexpr int node_ca = 1;
inline constexpr int transport_ib = 0;
inline constexpr int transport_iwarp = 1;
inline constexpr int transport_unspecified = 4;

struct ibv_device_attr {
  char fw_ver[64];
  std::uint64_t node_guid;
  std::uint64_t sys_image_guid;
  std::uint64_t max_mr_size;
  std::uint64_t page_size_cap;
  std::uint32_t vendor_id;
  std::uint32_t vendor_part_id;
  std::uint32_t hw_ver;
  int max_qp;
  int max_qp_wr;
  unsigned device_cap_flags;
  int max_sge;
  int max_sge_rd;
  int max_cq;
  int max_cqe;
  int max_mr;
  int max_pd;
  int max_qp_rd_atom;
  int max_ee_rd_atom;
  int max_res_rd_atom;
  int max_qp_init_rd_atom;
  int max_ee_init_rd_atom;
  int atomic_cap;
  int max_ee;
  int max_rdd;
  int max_mw;
  int max_raw_ipv6_qp;
  int max_raw_ethy_qp;
  int max_mcast_grp;
  int max_mcast_qp_attach;
  int max_total_mcast_qp_attach;
  int max_ah;
  int max_fmr;
  int max_map_per_fmr;
  int max_srq;
  int max_srq_wr;
  int max_srq_sge;
  std::uint16_t max_pkeys;
  std::uint8_t local_ca_ack_delay;
  std::uint8_t phys_port_cnt;
};

// ibv_mtu: bytes are 128 << code
inline constexpr int mtu_256 = 1;
inline constexpr int mtu_1024 = 3;
inline constexpr int mtu_4096 = 5;

// ibv_port_state
inline constexpr int port_down = 1;
inline constexpr int port_active = 4;

inline constexpr std::uint8_t link_layer_unspecified = 0;
inline constexpr std::uint8_t link_layer_infiniband = 1;
inline constexpr std::uint8_t link_layer_ethernet = 2;

struct ibv_port_attr {
  int state;
  int max_mtu;
  int active_mtu;
  int gid_tbl_len;
  std::uint32_t port_cap_flags;
  std::uint32_t max_msg_sz;
  std::uint32_t bad_pkey_cntr;
  std::uint32_t qkey_viol_cntr;
  std::uint16_t pkey_tbl_len;
  std::uint16_t lid;
  std::uint16_t sm_lid;
  std::uint8_t lmc;
  std::uint8_t max_vl_num;
  std::uint8_t sm_sl;
  std::uint8_t subnet_timeout;
  std::uint8_t init_type_reply;
  std::uint8_t active_width;
  std::uint8_t active_speed;
  std::uint8_t phys_state;
  std::uint8_t link_layer;
  std::uint8_t flags;
  std::uint16_t port_cap_flags2;
};

/// In network byte order. Aligned as the real union is, which holds two 64-bit words.
union ibv_gid {
  std::uint8_t raw[16];
  struct {
    std::uint64_t subnet_prefix;
    std::uint64_t interface_id;
  } global;
};

inline constexpr std::uint32_t gid_type_ib = 0;
inline constexpr std::uint32_t gid_type_roce_v1 = 1;
inline constexpr std::uint32_t gid_type_roce_v2 = 2;
inline constexpr std::uint32_t gid_type_unknown = 0xffffffff;  ///< ours: the library cannot tell

struct ibv_gid_entry {
  ibv_gid gid;
  std::uint32_t gid_index;
  std::uint32_t port_num;
  std::uint32_t gid_type;
  std::uint32_t ndev_ifindex;
};

// ibv_access_flags
inline constexpr int access_local_write = 1;
inline constexpr int access_remote_write = 2;
inline constexpr int access_remote_read = 4;

// ibv_qp_type
inline constexpr int qp_type_rc = 2;

// ibv_qp_state
inline constexpr int qp_reset = 0;
inline constexpr int qp_init = 1;
inline constexpr int qp_rtr = 2;
inline constexpr int qp_rts = 3;
inline constexpr int qp_error = 6;

// ibv_qp_attr_mask
inline constexpr int qp_mask_state = 1 << 0;
inline constexpr int qp_mask_access_flags = 1 << 3;
inline constexpr int qp_mask_pkey_index = 1 << 4;
inline constexpr int qp_mask_port = 1 << 5;
inline constexpr int qp_mask_av = 1 << 7;
inline constexpr int qp_mask_path_mtu = 1 << 8;
inline constexpr int qp_mask_timeout = 1 << 9;
inline constexpr int qp_mask_retry_count = 1 << 10;
inline constexpr int qp_mask_rnr_retry = 1 << 11;
inline constexpr int qp_mask_rq_psn = 1 << 12;
inline constexpr int qp_mask_max_rd_atomic = 1 << 13;
inline constexpr int qp_mask_min_rnr_timer = 1 << 15;
inline constexpr int qp_mask_sq_psn = 1 << 16;
inline constexpr int qp_mask_max_dest_rd_atomic = 1 << 17;
inline constexpr int qp_mask_dest_qpn = 1 << 20;

struct ibv_qp_cap {
  std::uint32_t max_send_wr;
  std::uint32_t max_recv_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_recv_sge;
  std::uint32_t max_inline_data;
};

struct ibv_qp_init_attr {
  void* qp_context;
  ibv_cq* send_cq;
  ibv_cq* recv_cq;
  void* srq;
  ibv_qp_cap cap;  ///< in: what is wanted; out: what there is
  int qp_type;
  int sq_sig_all;
};

struct ibv_global_route {
  ibv_gid dgid;
  std::uint32_t flow_label;
  std::uint8_t sgid_index;
  std::uint8_t hop_limit;
  std::uint8_t traffic_class;
};

struct ibv_ah_attr {
  ibv_global_route grh;
  std::uint16_t dlid;
  std::uint8_t sl;
  std::uint8_t src_path_bits;
  std::uint8_t static_rate;
  std::uint8_t is_global;
  std::uint8_t port_num;
};

struct ibv_qp_attr {
  int qp_state;
  int cur_qp_state;
  int path_mtu;
  int path_mig_state;
  std::uint32_t qkey;
  std::uint32_t rq_psn;
  std::uint32_t sq_psn;
  std::uint32_t dest_qp_num;
  unsigned qp_access_flags;
  ibv_qp_cap cap;
  ibv_ah_attr ah_attr;
  ibv_ah_attr alt_ah_attr;
  std::uint16_t pkey_index;
  std::uint16_t alt_pkey_index;
  std::uint8_t en_sqd_async_notify;
  std::uint8_t sq_draining;
  std::uint8_t max_rd_atomic;
  std::uint8_t max_dest_rd_atomic;
  std::uint8_t min_rnr_timer;
  std::uint8_t port_num;
  std::uint8_t timeout;  ///< 4.096 us << timeout until an acknowledgement is missed; 0: for ever
  std::uint8_t retry_cnt;
  std::uint8_t rnr_retry;  ///< 7: for ever
  std::uint8_t alt_port_num;
  std::uint8_t alt_timeout;
  std::uint32_t rate_limit;
};

// ibv_wr_opcode
inline constexpr int wr_rdma_write = 0;
inline constexpr int wr_rdma_write_with_imm = 1;
inline constexpr int wr_send = 2;
inline constexpr int wr_send_with_imm = 3;
inline constexpr int wr_rdma_read = 4;

// ibv_send_flags
inline constexpr unsigned send_fence = 1;
inline constexpr unsigned send_signaled = 2;
inline constexpr unsigned send_inline = 8;

struct ibv_sge {
  std::uint64_t addr;
  std::uint32_t length;
  std::uint32_t lkey;
};

struct ibv_send_wr {
  std::uint64_t wr_id;
  ibv_send_wr* next;
  ibv_sge* sg_list;
  int num_sge;
  int opcode;
  unsigned send_flags;
  std::uint32_t imm_data;  ///< network byte order
  struct Rdma {
    std::uint64_t remote_addr;
    std::uint32_t rkey;
  };
  struct Atomic {  ///< never asked for; the largest of the union
    std::uint64_t remote_addr;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t rkey;
  };
  union {
    Rdma rdma;
    Atomic atomic;
  } wr;
  std::uint32_t remote_srqn;
  std::uint64_t unused[6];  ///< memory windows and segmentation
};

struct ibv_recv_wr {
  std::uint64_t wr_id;
  ibv_recv_wr* next;
  ibv_sge* sg_list;
  int num_sge;
};

// ibv_wc_status
inline constexpr int wc_success = 0;
inline constexpr int wc_local_length_error = 1;
inline constexpr int wc_local_qp_operation_error = 2;
inline constexpr int wc_local_protection_error = 4;
inline constexpr int wc_flushed = 5;
inline constexpr int wc_bad_response_error = 7;
inline constexpr int wc_local_access_error = 8;
inline constexpr int wc_remote_invalid_request = 9;
inline constexpr int wc_remote_access_error = 10;
inline constexpr int wc_remote_operation_error = 11;
inline constexpr int wc_retry_exceeded = 12;
inline constexpr int wc_rnr_retry_exceeded = 13;
inline constexpr int wc_fatal = 19;
inline constexpr int wc_general = 21;

// ibv_wc_opcode
inline constexpr int wc_op_send = 0;
inline constexpr int wc_op_rdma_write = 1;
inline constexpr int wc_op_rdma_read = 2;
inline constexpr int wc_op_recv = 128;
inline constexpr int wc_op_recv_rdma_with_imm = 129;

// ibv_wc_flags
inline constexpr unsigned wc_with_imm = 2;

struct ibv_wc {
  std::uint64_t wr_id;
  int status;
  int opcode;  ///< valid on success alone
  std::uint32_t vendor_err;
  std::uint32_t byte_len;  ///< of what was received
  std::uint32_t imm_data;  ///< network byte order
  std::uint32_t qp_num;
  std::uint32_t src_qp;
  unsigned wc_flags;
  std::uint16_t pkey_index;
  std::uint16_t slid;
  std::uint8_t sl;
  std::uint8_t dlid_path_bits;
};

}  // namespace nobounce::system::verbs
