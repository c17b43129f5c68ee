// Registering memory with all lanes, or with none.
#include "provider/rdma/enrolment.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace nobounce::provider::rdma {

bool Enroller::ready() {
  const std::lock_guard lock(mutex_);
  if (registrar_ != nullptr) return true;
  const Result<system::Verbs*> table = adapters_.table();
  if (!table.ok()) return false;
  registrar_ = std::make_unique<Registrar>(**table, contexts_, machine_);
  if (contexts_ != nullptr) {
    prober_ = std::make_unique<Prober>(host_, *contexts_, *registrar_, **table);
  }
  return true;
}

std::uint64_t Enroller::buffer_of(const Place& place) {
  const auto* gpu = std::get_if<GpuMemory>(&place);
  return gpu == nullptr || !ready() ? 0 : registrar_->buffer_of(*gpu);
}

void Enroller::rehearse(std::uint32_t gpu, const std::shared_ptr<const Adapter>& adapter) {
  if (contexts_ == nullptr || !ready()) return;
  for (const Method method : {Method::dmabuf, Method::peermem}) {
    if (!prober_->doubts(gpu, adapter, method).has_value()) return;
  }
}

std::shared_ptr<Registration> Enroller::enroll_with(const QueuePair& pair,
                                                    const core::RegionView& region, int access,
                                                    std::vector<Finding>& findings) {
  const Enrolment where{pair.domain(), pair.adapter().name, access};
  if (const auto* host = std::get_if<HostMemory>(&region.place)) {
    return registrar_->enroll_host(*host, where, findings);
  }
  if (contexts_ == nullptr) return nullptr;
  const std::uint32_t gpu = std::get<GpuMemory>(region.place).gpu;
  for (const Method method : {Method::dmabuf, Method::peermem}) {
    std::shared_ptr<Registration> registered =
        registrar_->enroll_gpu(region, method, where, findings);
    if (registered == nullptr) continue;
    // That it was accepted proves nothing.
    const std::optional<Finding> doubt = prober_->doubts(gpu, pair.shared_adapter(), method);
    if (!doubt.has_value()) {
      findings.push_back(Finding{
          .cause = Cause::rdma_registration_failed,
          .subject = "gpu:" + std::to_string(gpu) + " - nic:" + where.adapter,
          .state = FindingState::met,
          .observed = "registered by " + std::string(to_string(method)) + ", and a probe arrived",
          .needed = "GPU memory that the adapter reaches",
          .remedy = {},
          .source = method == Method::dmabuf ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr"});
      return registered;
    }
    findings.push_back(*doubt);
  }
  return nullptr;
}

LaneRegistrations Enroller::enroll(const Connection& connection, const core::RegionView& region,
                                   int access) {
  LaneRegistrations made;
  if (length_bytes(region.place) == 0 || !ready()) return made;
  for (const Lane& lane : connection.lanes) {
    std::shared_ptr<Registration> registered =
        enroll_with(*lane.pair, region, access, made.findings);
    if (registered == nullptr) {
      made.by_lane.clear();
      return made;
    }
    made.by_lane.push_back(std::move(registered));
  }
  return made;
}

std::vector<Cause> causes_of(const std::vector<Finding>& findings) {
  std::vector<Cause> causes;
  for (const Finding& finding : findings) {
    if (finding.state != FindingState::unmet || causes.size() == rdma_causes_max) continue;
    if (std::find(causes.begin(), causes.end(), finding.cause) == causes.end()) {
      causes.push_back(finding.cause);
    }
  }
  return causes;
}

Finding finding_of(const Error& error, std::string subject) {
  const Cause cause = error.cause == Cause::none ? Cause::rdma_completion_error : error.cause;
  return Finding{.cause = cause,
                 .subject = std::move(subject),
                 .state = FindingState::unmet,
                 .observed = to_string(error),
                 .needed = "a connection that stands",
                 .remedy = std::string(remedy_of(error)),
                 .source = "the adapter"};
}

Finding far_finding(Cause cause) {
  return Finding{.cause = cause,
                 .subject = "memory of the peer",
                 .state = FindingState::unmet,
                 .observed = std::string(cause_row(cause).sentence) + ", at the far side",
                 .needed = "memory that the far side's adapters reach",
                 .remedy = std::string(cause_row(cause).remedy),
                 .source = "the far side's word"};
}

Finding not_tried(const Place& local) {
  const auto* gpu = std::get_if<GpuMemory>(&local);
  return Finding{.cause = Cause::rdma_registration_failed,
                 .subject = gpu == nullptr ? "host" : "gpu:" + std::to_string(gpu->gpu),
                 .state = FindingState::unknown,
                 .observed = "nobody has tried yet to register it",
                 .needed = "memory that the adapters reach",
                 .remedy = {},
                 .source = "this session"};
}

}  // namespace nobounce::provider::rdma
