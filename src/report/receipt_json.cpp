// The document `nobounce.receipt/1`.
#include "report/receipt_report.hpp"

namespace nobounce::report {

namespace {

constexpr const char* schema = "nobounce.receipt/1";

core::Json receipt_bytes(const CarriageBytes& bytes) {
  return core::JsonObject{
      {"direct", bytes[Carriage::direct]},     {"device_bounced", bytes[Carriage::device_bounced]},
      {"in_place", bytes[Carriage::in_place]}, {"cpu_mapped", bytes[Carriage::cpu_mapped]},
      {"staged", bytes[Carriage::staged]},     {"unattributed", bytes[Carriage::unattributed]},
  };
}

}  // namespace

core::Json receipt_json(const NamedReceipt& named) {
  const Receipt& receipt = named.receipt;
  core::JsonArray causes;
  for (std::size_t i = 0; i < receipt.cause_count; ++i)
    causes.emplace_back(to_string(receipt.causes[i]));
  return core::JsonObject{
      {"schema", schema},
      {"member", to_string(receipt.member)},
      {"source", named.source},
      {"target", named.target},
      {"state", to_string(receipt.state)},
      {"policy", to_string(receipt.policy)},
      {"requested_bytes", receipt.requested_bytes},
      {"bytes", receipt_bytes(receipt.bytes)},
      {"link", to_string(receipt.link)},
      {"issuer", to_string(receipt.issuer)},
      {"poster", to_string(receipt.poster)},
      {"known", to_string(receipt.known)},
      {"degraded", receipt.degraded},
      {"causes", std::move(causes)},
      {"verified", named.verified.has_value() ? core::Json(*named.verified) : core::Json(nullptr)},
      {"durable", receipt.durable},
      {"pinned_bytes", receipt.pinned_bytes},
      {"elapsed_ns",
       receipt.software_machine ? core::Json(nullptr) : core::Json(receipt.elapsed_ns)},
      {"machine", label_json(named.machine)},
  };
}

core::Json receipts_json(const std::vector<NamedReceipt>& receipts) {
  if (receipts.size() == 1) return receipt_json(receipts.front());
  core::JsonArray items;
  for (const NamedReceipt& receipt : receipts) items.push_back(receipt_json(receipt));
  return core::JsonObject{{"schema", schema}, {"receipts", std::move(items)}};
}

}  // namespace nobounce::report
