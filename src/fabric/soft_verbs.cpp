// libibverbs of a software machine: devices, ports and addresses; all else is the adapters' own.
#include "fabric/soft_verbs.hpp"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "fabric/soft_nic_facts.hpp"

namespace nobounce::fabric {

namespace verbs = system::verbs;

namespace {

template <typename Ours, typename Handle>
Ours* ours(Handle* handle) {
  return reinterpret_cast<Ours*>(handle);
}

/// An opened device.
struct Opened {
  std::uint32_t nic = 0;
};

class SoftVerbs final : public system::Verbs {
 public:
  explicit SoftVerbs(const SoftNics::Parts& parts) : dmabufs_(parts.dmabufs), nics_(parts) {
    for (std::uint32_t nic = 0; nic < nics_.machine().nics.size(); ++nic) {
      numbers_.push_back(std::make_unique<std::uint32_t>(nic));
    }
  }

#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) int method parameters override;
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

 private:
  [[nodiscard]] const Nic* nic_of(const void* device) const {
    for (const auto& number : numbers_) {
      if (number.get() == device) return &nics_.machine().nics[*number];
    }
    return nullptr;
  }
  [[nodiscard]] std::optional<std::uint32_t> opened(const void* context) const {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(context);
    if (found == contexts_.end()) return std::nullopt;
    return found->second->nic;
  }

  DmaBufs& dmabufs_;
  SoftNics nics_;
  std::vector<std::unique_ptr<std::uint32_t>>
      numbers_;  ///< a device's handle is its number's place
  mutable std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Opened>> contexts_;
};

int SoftVerbs::get_device_list(ibv_device*** devices, int* count) {
  auto* const list = new ibv_device*[numbers_.size() + 1];
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    list[i] = reinterpret_cast<ibv_device*>(numbers_[i].get());
  }
  list[numbers_.size()] = nullptr;
  *devices = list;
  if (count != nullptr) *count = static_cast<int>(numbers_.size());
  return 0;
}

int SoftVerbs::free_device_list(ibv_device** devices) {
  delete[] devices;
  return 0;
}

int SoftVerbs::get_device_name(const char** name, ibv_device* device) {
  const Nic* nic = nic_of(device);
  if (nic == nullptr) return EINVAL;
  *name = nic->name.c_str();
  return 0;
}

int SoftVerbs::get_device_types(int* node_type, int* transport_type, ibv_device* device) {
  const Nic* nic = nic_of(device);
  if (nic == nullptr) return EINVAL;
  const bool ordinary = nic->reliable_connections;
  constexpr int node_unspecified = 7;  // as AWS EFA calls itself
  *node_type = ordinary ? verbs::node_ca : node_unspecified;
  *transport_type = ordinary ? verbs::transport_ib : verbs::transport_unspecified;
  return 0;
}

int SoftVerbs::open_device(ibv_context** context, ibv_device* device) {
  if (nic_of(device) == nullptr) return EINVAL;
  auto made = std::make_unique<Opened>();
  made->nic = *ours<std::uint32_t>(device);
  *context = reinterpret_cast<ibv_context*>(made.get());
  const std::lock_guard lock(mutex_);
  contexts_.emplace(made.get(), std::move(made));
  return 0;
}

int SoftVerbs::close_device(ibv_context* context) {
  const std::lock_guard lock(mutex_);
  return contexts_.erase(context) > 0 ? 0 : EINVAL;
}

int SoftVerbs::query_device(ibv_context* context, ibv_device_attr* attributes) {
  const auto nic = opened(context);
  if (!nic) return EINVAL;
  *attributes = {};
  const std::string firmware = nics_.machine().nics[*nic].firmware;
  firmware.copy(attributes->fw_ver, sizeof attributes->fw_ver - 1);
  attributes->max_mr_size = ~std::uint64_t{0};
  attributes->page_size_cap = 0xfffff000;
  attributes->vendor_id = 0x02c9;
  attributes->max_qp = 1 << 17;
  attributes->max_qp_wr = 16384;
  attributes->max_sge = 16;
  attributes->max_sge_rd = 16;
  attributes->max_cq = 1 << 24;
  attributes->max_cqe = 1 << 20;
  attributes->max_mr = 1 << 24;
  attributes->max_pd = 1 << 24;
  attributes->max_qp_rd_atom = 16;
  attributes->max_qp_init_rd_atom = 16;
  attributes->max_pkeys = 128;
  attributes->phys_port_cnt = 1;
  return 0;
}

int SoftVerbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  const auto number = opened(context);
  if (!number || port != 1) return EINVAL;
  const Nic& nic = nics_.machine().nics[*number];
  *attributes = {};
  attributes->state = nic.active ? verbs::port_active : verbs::port_down;
  attributes->phys_state = nic.active ? 5 : 3;  // link up, disabled
  attributes->max_mtu = verbs::mtu_4096;
  attributes->active_mtu = is_ethernet(nic) ? verbs::mtu_1024 : verbs::mtu_4096;
  attributes->gid_tbl_len = static_cast<int>(gids_of(nic));
  attributes->max_msg_sz = 1u << 31;
  attributes->pkey_tbl_len = 1;
  if (!is_ethernet(nic)) {
    attributes->lid = static_cast<std::uint16_t>(*number + 1);
    attributes->sm_lid = 1;
  }
  attributes->link_layer =
      is_ethernet(nic) ? verbs::link_layer_ethernet : verbs::link_layer_infiniband;
  return 0;
}

int SoftVerbs::query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                         ibv_gid_entry* entry) {
  const auto number = opened(context);
  if (!number || port != 1) return EINVAL;
  const Nic& nic = nics_.machine().nics[*number];
  if (index >= gids_of(nic)) return EINVAL;
  *entry = {};
  entry->gid.raw[0] = 0xfe;  // link-local
  entry->gid.raw[1] = 0x80;
  std::uint64_t address = nics_.port_of(*number);
  for (int i = 15; i >= 8; --i) {
    entry->gid.raw[i] = static_cast<std::uint8_t>(address & 0xff);
    address >>= 8;
  }
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = !is_ethernet(nic) ? verbs::gid_type_ib
                    : index == 0      ? verbs::gid_type_roce_v1
                                      : verbs::gid_type_roce_v2;
  return 0;
}

int SoftVerbs::alloc_pd(ibv_pd** domain, ibv_context* context) {
  const auto nic = opened(context);
  if (!nic) return EINVAL;
  NicDomain* made = nullptr;
  const int code = nics_.make_domain(*nic, &made);
  *domain = reinterpret_cast<ibv_pd*>(made);
  return code;
}

int SoftVerbs::dealloc_pd(ibv_pd* domain) {
  return nics_.drop_domain(ours<NicDomain>(domain));
}

int SoftVerbs::reg_mr(ibv_mr** region, ibv_pd* domain, void* address, std::size_t length,
                      int access) {
  NicRegion* made = nullptr;
  const int code = nics_.register_memory(ours<NicDomain>(domain), address, length, access, &made);
  *region = reinterpret_cast<ibv_mr*>(made);
  return code;
}

int SoftVerbs::reg_dmabuf_mr(ibv_mr** region, ibv_pd* domain, std::uint64_t offset,
                             std::size_t length, std::uint64_t iova, int descriptor, int access) {
  NicRegion* made = nullptr;
  const int code = nics_.register_dmabuf(ours<NicDomain>(domain), offset, length, iova, descriptor,
                                         access, &made);
  *region = reinterpret_cast<ibv_mr*>(made);
  return code;
}

int SoftVerbs::dereg_mr(ibv_mr* region) {
  return nics_.drop_region(ours<NicRegion>(region));
}

int SoftVerbs::get_keys(std::uint32_t* local_key, std::uint32_t* remote_key, ibv_mr* region) {
  return nics_.keys_of(ours<NicRegion>(region), local_key, remote_key);
}

int SoftVerbs::create_cq(ibv_cq** queue, ibv_context* context, int entries) {
  const auto nic = opened(context);
  if (!nic) return EINVAL;
  NicQueue* made = nullptr;
  const int code = nics_.make_queue(*nic, entries, &made);
  *queue = reinterpret_cast<ibv_cq*>(made);
  return code;
}

int SoftVerbs::destroy_cq(ibv_cq* queue) {
  return nics_.drop_queue(ours<NicQueue>(queue));
}

int SoftVerbs::create_qp(ibv_qp** pair, ibv_pd* domain, ibv_qp_init_attr* attributes) {
  NicPair* made = nullptr;
  const int code = nics_.make_pair(ours<NicDomain>(domain), attributes, &made);
  *pair = reinterpret_cast<ibv_qp*>(made);
  return code;
}

int SoftVerbs::modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  return nics_.modify(ours<NicPair>(pair), *attributes, mask);
}

int SoftVerbs::query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int, ibv_qp_init_attr* initial) {
  return nics_.query(ours<NicPair>(pair), attributes, initial);
}

int SoftVerbs::destroy_qp(ibv_qp* pair) {
  return nics_.drop_pair(ours<NicPair>(pair));
}

int SoftVerbs::get_qp_number(std::uint32_t* number, ibv_qp* pair) {
  return nics_.number_of(ours<NicPair>(pair), number);
}

int SoftVerbs::post_send(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** refused) {
  return nics_.post_send(ours<NicPair>(pair), requests, refused);
}

int SoftVerbs::post_recv(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** refused) {
  return nics_.post_receive(ours<NicPair>(pair), requests, refused);
}

int SoftVerbs::poll_cq(int* count, ibv_cq* queue, int capacity, ibv_wc* completions) {
  return nics_.poll(ours<NicQueue>(queue), capacity, completions, count);
}

int SoftVerbs::close_dmabuf(int descriptor) {
  return dmabufs_.close(descriptor);
}

}  // namespace

std::unique_ptr<system::Verbs> make_soft_verbs(const SoftNics::Parts& parts) {
  return std::make_unique<SoftVerbs>(parts);
}

}  // namespace nobounce::fabric
