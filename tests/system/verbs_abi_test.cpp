// Our declarations of verbs against rdma-core's header: constants, sizes and every field's place.
// Functions: against the library, where it is installed.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include "system/live_host.hpp"
#include "system/verbs.hpp"

namespace nobounce::system {
namespace {

#define NOBOUNCE_SAME_FIELD(type, field)                                                       \
  static_assert(                                                                               \
      offsetof(verbs::type, field) == offsetof(::type, field) &&                               \
          sizeof(std::declval<verbs::type&>().field) == sizeof(std::declval<::type&>().field), \
      #type "." #field)
#define NOBOUNCE_SAME_TYPE(type)                                                                  \
  static_assert(sizeof(verbs::type) == sizeof(::type) && alignof(verbs::type) == alignof(::type), \
                #type)
#define NOBOUNCE_SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<long>(verbs::ours) == static_cast<long>(::theirs), #ours)

// ibv_gid is a union of the same names.
NOBOUNCE_SAME_TYPE(ibv_gid);

NOBOUNCE_SAME_TYPE(ibv_device_attr);
NOBOUNCE_SAME_FIELD(ibv_device_attr, fw_ver);
NOBOUNCE_SAME_FIELD(ibv_device_attr, node_guid);
NOBOUNCE_SAME_FIELD(ibv_device_attr, sys_image_guid);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_mr_size);
NOBOUNCE_SAME_FIELD(ibv_device_attr, page_size_cap);
NOBOUNCE_SAME_FIELD(ibv_device_attr, vendor_id);
NOBOUNCE_SAME_FIELD(ibv_device_attr, vendor_part_id);
NOBOUNCE_SAME_FIELD(ibv_device_attr, hw_ver);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_qp);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_qp_wr);
NOBOUNCE_SAME_FIELD(ibv_device_attr, device_cap_flags);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_sge);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_sge_rd);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_cq);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_cqe);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_mr);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_pd);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_qp_rd_atom);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_ee_rd_atom);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_res_rd_atom);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_qp_init_rd_atom);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_ee_init_rd_atom);
NOBOUNCE_SAME_FIELD(ibv_device_attr, atomic_cap);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_ee);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_rdd);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_mw);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_raw_ipv6_qp);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_raw_ethy_qp);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_mcast_grp);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_mcast_qp_attach);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_total_mcast_qp_attach);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_ah);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_fmr);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_map_per_fmr);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_srq);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_srq_wr);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_srq_sge);
NOBOUNCE_SAME_FIELD(ibv_device_attr, max_pkeys);
NOBOUNCE_SAME_FIELD(ibv_device_attr, local_ca_ack_delay);
NOBOUNCE_SAME_FIELD(ibv_device_attr, phys_port_cnt);

// Later headers add fields behind ours.
static_assert(sizeof(verbs::ibv_port_attr) <= sizeof(::ibv_port_attr));
NOBOUNCE_SAME_FIELD(ibv_port_attr, state);
NOBOUNCE_SAME_FIELD(ibv_port_attr, max_mtu);
NOBOUNCE_SAME_FIELD(ibv_port_attr, active_mtu);
NOBOUNCE_SAME_FIELD(ibv_port_attr, gid_tbl_len);
NOBOUNCE_SAME_FIELD(ibv_port_attr, port_cap_flags);
NOBOUNCE_SAME_FIELD(ibv_port_attr, max_msg_sz);
NOBOUNCE_SAME_FIELD(ibv_port_attr, bad_pkey_cntr);
NOBOUNCE_SAME_FIELD(ibv_port_attr, qkey_viol_cntr);
NOBOUNCE_SAME_FIELD(ibv_port_attr, pkey_tbl_len);
NOBOUNCE_SAME_FIELD(ibv_port_attr, lid);
NOBOUNCE_SAME_FIELD(ibv_port_attr, sm_lid);
NOBOUNCE_SAME_FIELD(ibv_port_attr, lmc);
NOBOUNCE_SAME_FIELD(ibv_port_attr, max_vl_num);
NOBOUNCE_SAME_FIELD(ibv_port_attr, sm_sl);
NOBOUNCE_SAME_FIELD(ibv_port_attr, subnet_timeout);
NOBOUNCE_SAME_FIELD(ibv_port_attr, init_type_reply);
NOBOUNCE_SAME_FIELD(ibv_port_attr, active_width);
NOBOUNCE_SAME_FIELD(ibv_port_attr, active_speed);
NOBOUNCE_SAME_FIELD(ibv_port_attr, phys_state);
NOBOUNCE_SAME_FIELD(ibv_port_attr, link_layer);
NOBOUNCE_SAME_FIELD(ibv_port_attr, flags);
NOBOUNCE_SAME_FIELD(ibv_port_attr, port_cap_flags2);

NOBOUNCE_SAME_TYPE(ibv_gid_entry);
NOBOUNCE_SAME_FIELD(ibv_gid_entry, gid);
NOBOUNCE_SAME_FIELD(ibv_gid_entry, gid_index);
NOBOUNCE_SAME_FIELD(ibv_gid_entry, port_num);
NOBOUNCE_SAME_FIELD(ibv_gid_entry, gid_type);
NOBOUNCE_SAME_FIELD(ibv_gid_entry, ndev_ifindex);

NOBOUNCE_SAME_TYPE(ibv_qp_cap);
NOBOUNCE_SAME_FIELD(ibv_qp_cap, max_send_wr);
NOBOUNCE_SAME_FIELD(ibv_qp_cap, max_recv_wr);
NOBOUNCE_SAME_FIELD(ibv_qp_cap, max_send_sge);
NOBOUNCE_SAME_FIELD(ibv_qp_cap, max_recv_sge);
NOBOUNCE_SAME_FIELD(ibv_qp_cap, max_inline_data);

NOBOUNCE_SAME_TYPE(ibv_qp_init_attr);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, qp_context);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, send_cq);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, recv_cq);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, srq);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, cap);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, qp_type);
NOBOUNCE_SAME_FIELD(ibv_qp_init_attr, sq_sig_all);

NOBOUNCE_SAME_TYPE(ibv_global_route);
NOBOUNCE_SAME_FIELD(ibv_global_route, dgid);
NOBOUNCE_SAME_FIELD(ibv_global_route, flow_label);
NOBOUNCE_SAME_FIELD(ibv_global_route, sgid_index);
NOBOUNCE_SAME_FIELD(ibv_global_route, hop_limit);
NOBOUNCE_SAME_FIELD(ibv_global_route, traffic_class);

NOBOUNCE_SAME_TYPE(ibv_ah_attr);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, grh);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, dlid);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, sl);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, src_path_bits);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, static_rate);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, is_global);
NOBOUNCE_SAME_FIELD(ibv_ah_attr, port_num);

NOBOUNCE_SAME_TYPE(ibv_qp_attr);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, qp_state);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, cur_qp_state);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, path_mtu);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, path_mig_state);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, qkey);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, rq_psn);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, sq_psn);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, dest_qp_num);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, qp_access_flags);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, cap);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, ah_attr);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, alt_ah_attr);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, pkey_index);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, alt_pkey_index);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, en_sqd_async_notify);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, sq_draining);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, max_rd_atomic);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, max_dest_rd_atomic);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, min_rnr_timer);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, port_num);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, timeout);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, retry_cnt);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, rnr_retry);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, alt_port_num);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, alt_timeout);
NOBOUNCE_SAME_FIELD(ibv_qp_attr, rate_limit);

NOBOUNCE_SAME_TYPE(ibv_sge);
NOBOUNCE_SAME_FIELD(ibv_sge, addr);
NOBOUNCE_SAME_FIELD(ibv_sge, length);
NOBOUNCE_SAME_FIELD(ibv_sge, lkey);

NOBOUNCE_SAME_TYPE(ibv_send_wr);
NOBOUNCE_SAME_FIELD(ibv_send_wr, wr_id);
NOBOUNCE_SAME_FIELD(ibv_send_wr, next);
NOBOUNCE_SAME_FIELD(ibv_send_wr, sg_list);
NOBOUNCE_SAME_FIELD(ibv_send_wr, num_sge);
NOBOUNCE_SAME_FIELD(ibv_send_wr, opcode);
NOBOUNCE_SAME_FIELD(ibv_send_wr, send_flags);
NOBOUNCE_SAME_FIELD(ibv_send_wr, imm_data);
NOBOUNCE_SAME_FIELD(ibv_send_wr, wr);

NOBOUNCE_SAME_TYPE(ibv_recv_wr);
NOBOUNCE_SAME_FIELD(ibv_recv_wr, wr_id);
NOBOUNCE_SAME_FIELD(ibv_recv_wr, next);
NOBOUNCE_SAME_FIELD(ibv_recv_wr, sg_list);
NOBOUNCE_SAME_FIELD(ibv_recv_wr, num_sge);

NOBOUNCE_SAME_TYPE(ibv_wc);
NOBOUNCE_SAME_FIELD(ibv_wc, wr_id);
NOBOUNCE_SAME_FIELD(ibv_wc, status);
NOBOUNCE_SAME_FIELD(ibv_wc, opcode);
NOBOUNCE_SAME_FIELD(ibv_wc, vendor_err);
NOBOUNCE_SAME_FIELD(ibv_wc, byte_len);
NOBOUNCE_SAME_FIELD(ibv_wc, imm_data);
NOBOUNCE_SAME_FIELD(ibv_wc, qp_num);
NOBOUNCE_SAME_FIELD(ibv_wc, src_qp);
NOBOUNCE_SAME_FIELD(ibv_wc, wc_flags);
NOBOUNCE_SAME_FIELD(ibv_wc, pkey_index);
NOBOUNCE_SAME_FIELD(ibv_wc, slid);
NOBOUNCE_SAME_FIELD(ibv_wc, sl);
NOBOUNCE_SAME_FIELD(ibv_wc, dlid_path_bits);
NOBOUNCE_SAME_FIELD(ibv_send_wr, wr.rdma.remote_addr);
NOBOUNCE_SAME_FIELD(ibv_send_wr, wr.rdma.rkey);

NOBOUNCE_SAME_NUMBER(node_ca, IBV_NODE_CA);
NOBOUNCE_SAME_NUMBER(transport_ib, IBV_TRANSPORT_IB);
NOBOUNCE_SAME_NUMBER(transport_iwarp, IBV_TRANSPORT_IWARP);
NOBOUNCE_SAME_NUMBER(transport_unspecified, IBV_TRANSPORT_UNSPECIFIED);
NOBOUNCE_SAME_NUMBER(mtu_256, IBV_MTU_256);
NOBOUNCE_SAME_NUMBER(mtu_1024, IBV_MTU_1024);
NOBOUNCE_SAME_NUMBER(mtu_4096, IBV_MTU_4096);
NOBOUNCE_SAME_NUMBER(port_down, IBV_PORT_DOWN);
NOBOUNCE_SAME_NUMBER(port_active, IBV_PORT_ACTIVE);
NOBOUNCE_SAME_NUMBER(link_layer_unspecified, IBV_LINK_LAYER_UNSPECIFIED);
NOBOUNCE_SAME_NUMBER(link_layer_infiniband, IBV_LINK_LAYER_INFINIBAND);
NOBOUNCE_SAME_NUMBER(link_layer_ethernet, IBV_LINK_LAYER_ETHERNET);
NOBOUNCE_SAME_NUMBER(gid_type_ib, IBV_GID_TYPE_IB);
NOBOUNCE_SAME_NUMBER(gid_type_roce_v1, IBV_GID_TYPE_ROCE_V1);
NOBOUNCE_SAME_NUMBER(gid_type_roce_v2, IBV_GID_TYPE_ROCE_V2);
NOBOUNCE_SAME_NUMBER(access_local_write, IBV_ACCESS_LOCAL_WRITE);
NOBOUNCE_SAME_NUMBER(access_remote_write, IBV_ACCESS_REMOTE_WRITE);
NOBOUNCE_SAME_NUMBER(access_remote_read, IBV_ACCESS_REMOTE_READ);
NOBOUNCE_SAME_NUMBER(qp_type_rc, IBV_QPT_RC);
NOBOUNCE_SAME_NUMBER(qp_reset, IBV_QPS_RESET);
NOBOUNCE_SAME_NUMBER(qp_init, IBV_QPS_INIT);
NOBOUNCE_SAME_NUMBER(qp_rtr, IBV_QPS_RTR);
NOBOUNCE_SAME_NUMBER(qp_rts, IBV_QPS_RTS);
NOBOUNCE_SAME_NUMBER(qp_error, IBV_QPS_ERR);
NOBOUNCE_SAME_NUMBER(qp_mask_state, IBV_QP_STATE);
NOBOUNCE_SAME_NUMBER(qp_mask_access_flags, IBV_QP_ACCESS_FLAGS);
NOBOUNCE_SAME_NUMBER(qp_mask_pkey_index, IBV_QP_PKEY_INDEX);
NOBOUNCE_SAME_NUMBER(qp_mask_port, IBV_QP_PORT);
NOBOUNCE_SAME_NUMBER(qp_mask_av, IBV_QP_AV);
NOBOUNCE_SAME_NUMBER(qp_mask_path_mtu, IBV_QP_PATH_MTU);
NOBOUNCE_SAME_NUMBER(qp_mask_timeout, IBV_QP_TIMEOUT);
NOBOUNCE_SAME_NUMBER(qp_mask_retry_count, IBV_QP_RETRY_CNT);
NOBOUNCE_SAME_NUMBER(qp_mask_rnr_retry, IBV_QP_RNR_RETRY);
NOBOUNCE_SAME_NUMBER(qp_mask_rq_psn, IBV_QP_RQ_PSN);
NOBOUNCE_SAME_NUMBER(qp_mask_max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC);
NOBOUNCE_SAME_NUMBER(qp_mask_min_rnr_timer, IBV_QP_MIN_RNR_TIMER);
NOBOUNCE_SAME_NUMBER(qp_mask_sq_psn, IBV_QP_SQ_PSN);
NOBOUNCE_SAME_NUMBER(qp_mask_max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC);
NOBOUNCE_SAME_NUMBER(qp_mask_dest_qpn, IBV_QP_DEST_QPN);
NOBOUNCE_SAME_NUMBER(wr_rdma_write, IBV_WR_RDMA_WRITE);
NOBOUNCE_SAME_NUMBER(wr_rdma_write_with_imm, IBV_WR_RDMA_WRITE_WITH_IMM);
NOBOUNCE_SAME_NUMBER(wr_send, IBV_WR_SEND);
NOBOUNCE_SAME_NUMBER(wr_send_with_imm, IBV_WR_SEND_WITH_IMM);
NOBOUNCE_SAME_NUMBER(wr_rdma_read, IBV_WR_RDMA_READ);
NOBOUNCE_SAME_NUMBER(send_fence, IBV_SEND_FENCE);
NOBOUNCE_SAME_NUMBER(send_signaled, IBV_SEND_SIGNALED);
NOBOUNCE_SAME_NUMBER(send_inline, IBV_SEND_INLINE);
NOBOUNCE_SAME_NUMBER(wc_success, IBV_WC_SUCCESS);
NOBOUNCE_SAME_NUMBER(wc_local_length_error, IBV_WC_LOC_LEN_ERR);
NOBOUNCE_SAME_NUMBER(wc_local_qp_operation_error, IBV_WC_LOC_QP_OP_ERR);
NOBOUNCE_SAME_NUMBER(wc_local_protection_error, IBV_WC_LOC_PROT_ERR);
NOBOUNCE_SAME_NUMBER(wc_flushed, IBV_WC_WR_FLUSH_ERR);
NOBOUNCE_SAME_NUMBER(wc_bad_response_error, IBV_WC_BAD_RESP_ERR);
NOBOUNCE_SAME_NUMBER(wc_local_access_error, IBV_WC_LOC_ACCESS_ERR);
NOBOUNCE_SAME_NUMBER(wc_remote_invalid_request, IBV_WC_REM_INV_REQ_ERR);
NOBOUNCE_SAME_NUMBER(wc_remote_access_error, IBV_WC_REM_ACCESS_ERR);
NOBOUNCE_SAME_NUMBER(wc_remote_operation_error, IBV_WC_REM_OP_ERR);
NOBOUNCE_SAME_NUMBER(wc_retry_exceeded, IBV_WC_RETRY_EXC_ERR);
NOBOUNCE_SAME_NUMBER(wc_rnr_retry_exceeded, IBV_WC_RNR_RETRY_EXC_ERR);
NOBOUNCE_SAME_NUMBER(wc_fatal, IBV_WC_FATAL_ERR);
NOBOUNCE_SAME_NUMBER(wc_general, IBV_WC_GENERAL_ERR);
NOBOUNCE_SAME_NUMBER(wc_op_send, IBV_WC_SEND);
NOBOUNCE_SAME_NUMBER(wc_op_rdma_write, IBV_WC_RDMA_WRITE);
NOBOUNCE_SAME_NUMBER(wc_op_rdma_read, IBV_WC_RDMA_READ);
NOBOUNCE_SAME_NUMBER(wc_op_recv, IBV_WC_RECV);
NOBOUNCE_SAME_NUMBER(wc_op_recv_rdma_with_imm, IBV_WC_RECV_RDMA_WITH_IMM);
NOBOUNCE_SAME_NUMBER(wc_with_imm, IBV_WC_WITH_IMM);

TEST(LiveVerbs, ListsTheAdaptersOfThisMachineOrSaysWhatIsMissing) {
  const auto host = make_live_host();
  const Result<Verbs*> table = host->verbs();
  if (!table.ok()) {
    EXPECT_EQ(table.error().cause, Cause::rdma_verbs_absent);
    EXPECT_NE(table.error().detail.find("libibverbs.so.1"), std::string::npos);
    return;
  }
  verbs::ibv_device** devices = nullptr;
  int count = -1;
  const int code = (*table)->get_device_list(&devices, &count);
  if (code != 0) {
    EXPECT_EQ(code, ENOSYS) << "the kernel has no RDMA at all";
    return;
  }
  ASSERT_GE(count, 0);
  for (int i = 0; i < count; ++i) {
    const char* name = nullptr;
    EXPECT_EQ((*table)->get_device_name(&name, devices[i]), 0);
    EXPECT_NE(name, nullptr);
  }
  EXPECT_EQ((*table)->free_device_list(devices), 0);
}

TEST(LiveVerbs, SaysWhichFileItLookedFor) {
  LiveOptions options;
  options.verbs_library = "libibverbs-of-nobody.so.1";
  const auto host = make_live_host(options);
  const Result<Verbs*> table = host->verbs();
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().cause, Cause::rdma_verbs_absent);
  EXPECT_NE(table.error().detail.find("libibverbs-of-nobody.so.1"), std::string::npos);
  EXPECT_FALSE(table.error().remedy.empty());
}

}  // namespace
}  // namespace nobounce::system
